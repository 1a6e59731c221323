"""What a follower has besides its log: how far its leader is committed, where the leader's log begins, and who copies.

Rules: synchronous. Made when a partition begins to follow; a term as leader ends it.
Invariant: the follower's high watermark and log start are the leader's, each as far as this log reaches; they are taken over
again whenever more of what was copied is written.
Source: Kafka ReplicaFetcherThread.processPartitionData, Partition.appendRecordsToFollowerOrFutureReplica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from protocol.errors import ErrorCode, KafkaError
from storage.log.validation import AppendOrigin

if TYPE_CHECKING:
    from replication.partition import Partition
    from runtime.disk.filesystem import Buffer


class Copier(Protocol):
    """Copies a partition from its leader."""

    def on_shortened(self, partition: Partition) -> None:
        """Called when the log start has risen, which the leader must know."""


class Following:
    """The leader's offsets, as a follower knows them. `copier` is called when the log start rises, until this broker leads."""

    __slots__ = ("_high_watermark", "_log_start_offset", "_partition", "copier")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.copier: Copier | None = None
        # The leader's values in the last response, -1 before the first.
        self._high_watermark = self._log_start_offset = -1

    def forget_leader(self) -> None:
        """Forget the offsets of the leader, because there may be another one."""
        self._high_watermark = self._log_start_offset = -1

    def append(self, records: Buffer, *, leader_high_watermark: int, leader_log_start_offset: int, now_ms: int) -> None:
        """Append what the leader has, and take over how far it is committed and where it begins, as far as this log goes.

        `records` may be empty. The write may still be under way when this returns: only what is below
        `log.log_end_offset` may be claimed to the leader. Raises KafkaError, and then nothing has changed.
        """
        partition = self._partition
        if partition.leader is not None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker leads {partition.topic}-{partition.partition}: it follows nobody.",
            )
        log = partition.log
        if len(records):
            log.append(
                records,
                leader_epoch=partition.assignment.leader_epoch,
                origin=AppendOrigin.REPLICA,
                now_ms=now_ms,
                done=self._on_copied,
            )
            if log.failure is not None:  # the write failed immediately
                raise log.failure.again()
        self._high_watermark = leader_high_watermark
        self._log_start_offset = leader_log_start_offset
        self._take_over_offsets()

    def _on_copied(self, error: KafkaError | None) -> None:
        partition = self._partition
        partition.on_written(error)
        if error is None and partition.leader is None and partition.following is self:
            self._take_over_offsets()

    def _take_over_offsets(self) -> None:
        """Apply the leader's high watermark and log start, each as far as this log reaches by now."""
        if self._high_watermark < 0:
            return  # what was written came from the leader before
        partition = self._partition
        log = partition.log
        high_watermark = max(min(self._high_watermark, log.log_end_offset), log.log_start_offset)
        if high_watermark != log.high_watermark:
            partition.commit(high_watermark)
        log_start_offset = min(self._log_start_offset, high_watermark)
        if log_start_offset > log.log_start_offset:
            log.retention.raise_log_start_offset(log_start_offset)
            partition.truncated()

    def on_start_raised(self) -> None:
        """Tell the copier that the log start has risen."""
        if self.copier is not None:
            self.copier.on_shortened(self._partition)
