"""The requests of a transactional producer, and of somebody who ends its transactions: each is asked again while its error
may pass.

Rules: an identity is what InitProducerId gave; a newer one of the same transactional id fences it. Versions are those of before
KIP-890's second part, in which an epoch stays the same over the end of a transaction: it is ended by whoever has the identity.
Errors: TransactionGone when the producer is fenced, or the transaction was ended otherwise; KafkaError, ClusterUnavailable.
Source: KIP-98; Kafka TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from barnabas.spark.writing.exactly_once import OpenTransaction, TransactionGone
from client.admin import transactions
from client.admin.steps import KeyKind, Rows, ask, located, rows_of
from client.blocking.cluster_client import ClusterClient
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.schema import Request
from protocol.topic_partition import TopicPartition

_GONE: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_OPEN_STATES: Final = ("Ongoing", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What InitProducerId gave; `transactional_id` is None for a producer that is only idempotent."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


class TransactionCalls:
    """Asks the coordinators of transactional ids."""

    def __init__(self, client: ClusterClient, timeout_ms: int) -> None:
        """`timeout_ms`: how long a transaction may be open (transaction.timeout.ms)."""
        self._client = client
        self._timeout_ms = timeout_ms

    def begin(self, transactional_id: str | None) -> ProducerIdentity:
        """A new identity; one of the same transactional id that is open elsewhere is fenced, and its transaction aborted."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=self._timeout_ms if transactional_id else 1
        )
        if transactional_id is None:
            response = self._client.run(ask(request))
        else:
            response = self._of_coordinator(transactional_id, request)
        return ProducerIdentity(transactional_id, response.producer_id, response.producer_epoch)

    def add_partitions(self, identity: ProducerIdentity, keys: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction, before they are written to."""
        assert identity.transactional_id is not None
        topics: dict[str, list[int]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=identity.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in topics.items()
            ],
        )

        self._of_coordinator(identity.transactional_id, request, _worst_code)

    def end(self, transaction: OpenTransaction, *, commits: bool) -> None:
        """Commit or abort; again, when it was done before, without an effect."""
        request = EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=commits,
        )
        self._of_coordinator(transaction.transactional_id, request)

    def open_ids(self, prefix: str) -> list[str]:
        """The transactional ids that begin with `prefix` and have an open transaction, as all brokers say."""
        found = self._client.run(transactions.list_all(_OPEN_STATES)).values()
        return sorted(
            each.transactional_id for some in found for each in some if each.transactional_id.startswith(prefix)
        )

    def _of_coordinator(self, name: str, request: Request, code_of: Callable[[Any], int] = lambda _: 0) -> Any:
        """Return the response of the coordinator of a transactional id, which has no error any more. `code_of` finds an error
        in its rows."""

        def read(response: Any) -> Rows[str, Any]:
            yield name, code_of(response), None, response

        locate = located(KeyKind.TRANSACTION)
        steps = rows_of([name], locate, lambda _: request, read, lambda error: error.code.retriable)
        outcome = self._client.run(steps)[name]
        if isinstance(outcome, KafkaError):
            if outcome.code in _GONE:
                raise TransactionGone(str(outcome)) from outcome
            raise outcome
        return outcome


def _worst_code(response: AddPartitionsToTxnResponse) -> int:
    """Return the reason why partitions were not added: those beside one that failed were not tried."""
    codes = {
        row.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    }
    return min(codes - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}, default=0)
