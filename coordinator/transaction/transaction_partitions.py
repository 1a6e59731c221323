"""AddPartitionsToTxn and AddOffsetsToTxn: partitions become part of a transaction, or are verified to be. Pure.

A client adds partitions itself; for one whose epoch is raised at each end (`EPOCH_BUMPS`) the leaders add theirs.
Behaviour: the first partition begins the transaction. Partitions that are in it already are not written again. Verification
(KIP-890) changes nothing and does not wait for a pending change: the partition checks once more when it appends.
Source: KIP-98, KIP-890; Kafka TransactionCoordinator.handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from coordinator.runtime.contract import Outbox, Waiter
from coordinator.transaction.change_writer import SUCCESS, ChangeWriter
from coordinator.transaction.transaction import TransactionalId, TransactionResponse, TransactionState
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import ONE_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """The producer that a request names."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionPartitions:
    """Adds and verifies partitions. The shard owns `ids`."""

    def __init__(self, ids: dict[str, TransactionalId], writer: ChangeWriter, outbox: Outbox) -> None:
        self._ids = ids
        self._writer = writer
        self._outbox = outbox

    def add(
        self,
        producer: TransactionalProducer,
        partitions: Collection[TopicPartition],
        waiter: Waiter,
        now_ms: int,
        client_version: int = ONE_EPOCH,
    ) -> None:
        subject = self._ids.get(producer.transactional_id)
        error = _producer_error(subject, producer)
        if error is not ErrorCode.NONE:
            self._outbox.respond(waiter, TransactionResponse(error))
            return
        assert subject is not None and subject.stored is not None
        current = subject.stored
        added = frozenset(partitions)
        if subject.pending is not None or current.state.is_prepared:
            self._outbox.respond(waiter, TransactionResponse(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif current.state is TransactionState.ONGOING and added <= current.partitions:
            self._outbox.respond(waiter, SUCCESS)
        else:
            with_added = current.with_partitions(added, now_ms, client_version)
            self._writer.store(subject, with_added, "added partitions", waiter=waiter)

    def verify(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for each partition that is in the open transaction of `producer`, else an error."""
        subject = self._ids.get(producer.transactional_id)
        error = _producer_error(subject, producer)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(partitions, error)
        assert subject is not None and subject.stored is not None
        if subject.stored.state.is_prepared:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        known = subject.stored.partitions
        return {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def _producer_error(subject: TransactionalId | None, producer: TransactionalProducer) -> ErrorCode:
    if subject is None or subject.stored is None or subject.stored.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if subject.stored.producer_epoch != producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE
