"""Which verifications wait for which transaction coordinator's broker, and what a response means for them. Pure.

    add     a verification is queued for its coordinator's broker
    take    the queue of a broker becomes its request in flight
    finish  that request has its response, or has failed

Rules: one request in flight per broker. At most one verification of a transactional id is queued for a broker: a client that
retries has given up on its first request. A newer epoch fences an older one; of two with the same epoch the later one stays,
and the earlier one gets NETWORK_EXCEPTION, which makes the client retry.
Source: KIP-890 part 1; Kafka AddPartitionsToTxnManager (TransactionDataAndCallbacks, AddPartitionsToTxnHandler).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.topic_partition import TopicPartition

# Any others are sent in the next request: a broker refuses requests with very long arrays.
PARTITIONS_PER_REQUEST = 10_000

VerificationErrors = dict[TopicPartition, ErrorCode]

_ERRORS = {int(code): code for code in ErrorCode}


class VerificationWaiter(Protocol):
    """Receives the outcome of one verification, such as an `asyncio.Future`."""

    def done(self) -> bool: ...

    def set_result(self, result: VerificationErrors, /) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class PendingVerification:
    """A verification that waits for a coordinator since `since_ms`, on the monotonic clock."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    since_ms: int
    waiter: VerificationWaiter
    adds: bool = False
    """Whether the partitions become part of the transaction, if they are not."""

    def all(self, error: ErrorCode) -> VerificationErrors:
        return dict.fromkeys(self.partitions, error)


@dataclass(slots=True)
class _BrokerQueue:
    waiting: dict[str, PendingVerification] = field(default_factory=dict)
    is_in_flight: bool = False


class VerificationQueues:
    """The pending verifications of this broker, by the broker of their coordinator."""

    def __init__(self, partitions_per_request: int = PARTITIONS_PER_REQUEST) -> None:
        self._partitions_per_request = partitions_per_request
        self._queues: dict[int, _BrokerQueue] = {}

    def add(self, broker_id: int, asked: PendingVerification) -> tuple[PendingVerification, ErrorCode] | None:
        """Queue `asked`. Return the verification that this replaces or refuses, with its error, or None."""
        waiting = self._queues.setdefault(broker_id, _BrokerQueue()).waiting
        earlier = waiting.get(asked.transactional_id)
        if earlier is not None and earlier.producer_epoch > asked.producer_epoch:
            return asked, ErrorCode.INVALID_PRODUCER_EPOCH
        waiting.pop(asked.transactional_id, None)
        waiting[asked.transactional_id] = asked
        if earlier is None:
            return None
        is_fenced = earlier.producer_epoch < asked.producer_epoch
        return earlier, ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION

    def take(self, broker_id: int) -> list[PendingVerification]:
        """Begin a request to `broker_id` with its queue, up to the bound. Returns an empty list while one is in flight, and
        when nothing is queued. The caller ends the request with `finish`."""
        queue = self._queues.get(broker_id)
        if queue is None or queue.is_in_flight:
            return []
        taken, room = list[PendingVerification](), self._partitions_per_request
        for asked in queue.waiting.values():
            if taken and len(asked.partitions) > room:
                break
            room -= len(asked.partitions)
            taken.append(asked)
        for asked in taken:
            del queue.waiting[asked.transactional_id]
        queue.is_in_flight = bool(taken)
        return taken

    def finish(self, broker_id: int) -> None:
        """End the request in flight to `broker_id`."""
        queue = self._queues[broker_id]
        queue.is_in_flight = False
        if not queue.waiting:
            del self._queues[broker_id]


def verification_request(asked: Iterable[PendingVerification]) -> AddPartitionsToTxnRequest:
    """Return one request, of version 4 or later, that adds to transactions or only verifies them."""
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=not each.adds,
                topics=_topics(each.partitions),
            )
            for each in asked
        ]
    )


def _topics(partitions: Collection[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]


def verification_errors(
    asked: Collection[PendingVerification], response: AddPartitionsToTxnResponse
) -> list[VerificationErrors]:
    """Return the outcome of each verification. A partition that the response does not name is not verified."""
    if response.error_code != ErrorCode.NONE:
        # A producer cannot change the permissions of a broker.
        is_refused = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        error = ErrorCode.INVALID_TXN_STATE if is_refused else _error_of(response.error_code)
        return [each.all(error) for each in asked]
    by_id = {
        result.transactional_id: {
            (topic.name, row.partition_index): _error_of(row.partition_error_code)
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
    return [
        {
            partition: as_producers_know(
                by_id.get(each.transactional_id, {}).get(partition, ErrorCode.NETWORK_EXCEPTION)
            )
            for partition in each.partitions
        }
        for each in asked
    ]


def as_producers_know(error: ErrorCode) -> ErrorCode:
    """Map PRODUCER_FENCED of a coordinator to INVALID_PRODUCER_EPOCH, which producers expect from a partition."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def _error_of(code: int) -> ErrorCode:
    return _ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
