"""Verifies transactions that store offsets: is the group's partition of `__consumer_offsets` part of the transaction? For newer
clients, which do not add it themselves, it becomes one.

A producer whose transaction has written to the partition is not verified again. For any other one the log makes a guard, the
transaction's coordinator verifies, and the append is made with the guard: a marker in between makes the guard void.

Rules: this broker leads the partition at the call; the append fails when that has changed.
Source: KIP-890; Kafka GroupCoordinator.handleTxnCommitOffsets,
ReplicaManager.maybeStartTransactionVerificationForPartition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import NO_SEQUENCE
from storage.log.producers.transaction_verifications import ONGOING

if TYPE_CHECKING:
    from coordinator.runtime.contract import BatchProducer
    from coordinator.transaction.verification import TransactionVerification
    from replication.partitions import Partitions

# A marker of the transaction before may come while the coordinator is asked, which makes the guard void.
ADD_ATTEMPTS = 3


class OffsetsPartitionVerification:
    """Implements `coordinator.group_coordinator.CommitVerification`. `is_enabled` reads a setting that may change
    (`transaction.partition.verification.enable`)."""

    def __init__(
        self,
        topic: str,
        partitions: Partitions,
        transactions: TransactionVerification,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._transactions = transactions
        self._is_enabled = is_enabled

    async def verify(
        self, partition: int, transactional_id: str, producer: BatchProducer, *, adds: bool = False
    ) -> object | None:
        """Return the guard for the append, None when nothing is to be verified. Raises: KafkaError."""
        if not (adds or self._is_enabled()):
            return None
        key = (self._topic, partition)
        target = self._partitions.find(*key)
        if target is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self._topic}-{partition} is not on this broker.")
        producer_id, epoch = producer.producer_id, producer.producer_epoch
        for _ in range(ADD_ATTEMPTS if adds else 1):
            guard = target.begin_verification(producer_id, epoch, NO_SEQUENCE, bumps_epoch=adds)
            if guard is ONGOING:
                break
            ask = self._transactions.add if adds else self._transactions.verify
            error = (await ask(transactional_id, producer_id, epoch, [key]))[key]
            if error is not ErrorCode.NONE:
                raise KafkaError(
                    error, f"{self._topic}-{partition} is not part of a transaction of {transactional_id}."
                )
            if target.log.producers.is_current(producer_id, guard):
                break
        return guard
