"""Replaces a partition's log by another one, in another log directory, while clients append.

    buffer_appends --+-- hand_over_to the other log
                     +-- release: this log stays the partition's

Rules: runs on the event loop. Holds no state: what is buffered is pending in the writer.
Invariant: an accepted append is written by exactly one of the two logs, and its `done` is called once.
Source: Kafka Partition.maybeReplaceCurrentWithFutureReplica, which holds a lock meanwhile; KIP-113.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from storage.log.validation import AppendOrigin

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog


class LogReplacement:
    """The replacement of one log by another."""

    __slots__ = ("_log",)

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    @property
    def can_begin(self) -> bool:
        """Whether appends can be buffered."""
        log = self._log
        return log.writer.can_buffer_appends and not log.is_closed and not log.is_truncating

    @property
    def is_buffering(self) -> bool:
        """Whether appends are buffered because another log may replace this one; until that ends, only segments with an open
        file can be read."""
        log = self._log
        return not log.is_at_rest and log.writer.pending.is_buffering

    def buffer_appends(self) -> None:
        """Accept appends and keep them in memory, until `release` or `hand_over_to`."""
        self._log.writer.buffer_appends()

    def detach_folder(self) -> None:
        """Prepare a buffering or failed log for the renaming of its folder. Open files stay readable; opening a file raises
        KAFKA_STORAGE_ERROR, and the caller retries."""
        for segment in self._log.segments:
            segment.is_gone = True

    def release(self) -> None:
        """End the buffering and write what was buffered: this log stays the partition's."""
        for segment in self._log.segments:
            segment.is_gone = False
        self._log.writer.release()

    def hand_over_to(self, other: PartitionLog) -> None:
        """Pass the buffered appends to `other`, which contains everything that this log has written."""
        for each in self._log.writer.pending.take_buffered():
            try:
                other.append(
                    each.records,
                    leader_epoch=self._log.epochs.latest_epoch,
                    origin=AppendOrigin.REPLICA,
                    now_ms=each.now_ms,
                    done=each.done,
                )
            except KafkaError as error:
                each.done(error)
