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
from typing import Final, TypeVar

from barnabas.spark.client.cluster_client import ClusterClient
from barnabas.spark.client.connection import BrokerConnection
from barnabas.spark.writing.exactly_once import OpenTransaction, TransactionGone
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
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
T = TypeVar("T")
R = TypeVar("R", InitProducerIdResponse, EndTxnResponse)


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
            response = self._retried(
                "InitProducerId", lambda: _checked(self._client.ask_any(request, InitProducerIdResponse))
            )
        else:
            response = self._of_coordinator(
                transactional_id, lambda connection: _checked(connection.ask(request, InitProducerIdResponse))
            )
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

        def ask(connection: BrokerConnection) -> None:
            response = connection.ask(request, AddPartitionsToTxnResponse)
            codes = {
                ErrorCode(each.partition_error_code)
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            # Partitions beside one that failed were not tried: the reason is the other error.
            for code in sorted(codes - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}):
                raise KafkaError(code, f"AddPartitionsToTxn: {code.message}")

        self._of_coordinator(identity.transactional_id, ask)

    def end(self, transaction: OpenTransaction, *, commits: bool) -> None:
        """Commit or abort; again, when it was done before, without an effect."""
        request = EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=commits,
        )
        self._of_coordinator(
            transaction.transactional_id, lambda connection: _checked(connection.ask(request, EndTxnResponse))
        )

    def open_ids(self, prefix: str) -> list[str]:
        """The transactional ids that begin with `prefix` and have an open transaction, as all brokers say."""
        request = ListTransactionsRequest(state_filters=list(_OPEN_STATES), producer_id_filters=[])

        def ask() -> list[str]:
            found = []
            for connection in self._client.all_brokers():
                response = connection.ask(request, ListTransactionsResponse)
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code))
                found += [each.transactional_id for each in response.transaction_states]
            return sorted(name for name in found if name.startswith(prefix))

        return self._retried("ListTransactions", ask)

    def _of_coordinator(self, transactional_id: str, ask: Callable[[BrokerConnection], T]) -> T:
        return self._retried(
            f"transaction {transactional_id}", lambda: ask(self._client.coordinator_of(transactional_id))
        )

    def _retried(self, what: str, ask: Callable[[], T]) -> T:
        attempts = self._client.attempts(what)
        while True:
            try:
                return ask()
            except KafkaError as error:
                if error.code in _GONE:
                    raise TransactionGone(str(error)) from error
                if not error.code.retriable:
                    raise
                attempts.pause(error)
            except OSError as error:
                self._client.close()  # whichever connection failed: all are opened again
                attempts.pause(error)


def _checked(response: R) -> R:
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))
    return response
