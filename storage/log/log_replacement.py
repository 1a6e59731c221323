"""Replaces a partition's log by another one, in another log directory, while clients append.

    buffer_appends --+-- hand_over to the other log
                     +-- release: this log stays the partition's

Rules: runs on the event loop. What is buffered is pending in the writer.
Invariant: an accepted append is written by exactly one of the two logs, and its `done` is called once.
Source: Kafka Partition.maybeReplaceCurrentWithFutureReplica, which holds a lock meanwhile; KIP-113.
"""

from __future__ import annotations

from protocol.errors import KafkaError
from storage.log.partition_log import PartitionLog
from storage.log.validation import AppendOrigin


def can_begin(log: PartitionLog) -> bool:
    """Whether appends can be buffered."""
    return log.writer.can_buffer_appends and not log.is_closed and not log.is_truncating


def is_buffering(log: PartitionLog) -> bool:
    """Whether appends are buffered because another log may replace this one; until that ends, only segments with an open
    file can be read."""
    return not log.is_at_rest and log.writer.pending.is_buffering


def buffer_appends(log: PartitionLog) -> None:
    """Accept appends and keep them in memory, until `release` or `hand_over`."""
    log.writer.buffer_appends()


def release(log: PartitionLog) -> None:
    """End the buffering and write what was buffered: this log stays the partition's."""
    for segment in log.segments:
        segment.is_removed = False
    log.writer.release()


def hand_over(log: PartitionLog, other: PartitionLog) -> None:
    """Pass the buffered appends to `other`, which contains everything that this log has written."""
    for each in log.writer.pending.take_buffered():
        try:
            other.append(
                each.records,
                leader_epoch=log.epochs.latest_epoch,
                origin=AppendOrigin.REPLICA,
                now_ms=each.now_ms,
                done=each.done,
            )
        except KafkaError as error:
            each.done(error)
