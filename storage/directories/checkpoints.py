"""Reads and writes the offset checkpoints of one log directory.

`recovery-point-offset-checkpoint` (below it a log is on the disk), `log-start-offset-checkpoint` (where a log begins, when
its files do not say it), `replication-offset-checkpoint` (high watermarks) and `cleaner-offset-checkpoint` (up to where
a log was compacted).

Rules: `read` is a job; the rest runs on the event loop and writes in a queue that no append waits in: a file costs two fsyncs,
every five seconds. A file is written only when its content would change.
Invariants: a file is written one time after the other, and each time after everything that was under way in the queue of the
logs when it was asked for: what a log says of itself may be ahead of its files by no more than that. What is remembered of a
file is what the file holds, unless the last write of it was cut short.
Source: Kafka LogManager.checkpointLogRecoveryOffsets and checkpointLogStartOffsets, ReplicaManager.checkpointHighWatermarks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

from protocol.topic_partition import TopicPartition
from runtime.disk.disk_queue import DiskQueue
from storage.directories.log_directory import (
    CLEANER_OFFSET_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    LogDirectory,
)
from storage.log.partition_log import PartitionLog

Offsets = dict[TopicPartition, int]


class Checkpoints:
    """The four files. `had_recovery_points`: their file existed, so that a log that it does not name is newer."""

    __slots__ = ("_cut_short", "_files", "_in_order", "_log_queue", "_queue", "_written", "had_recovery_points")

    def __init__(self, files: LogDirectory, log_queue: DiskQueue, queue: DiskQueue) -> None:
        self._files = files
        self._log_queue = log_queue
        self._queue = queue
        self._in_order = asyncio.Lock()  # which is fair: who asks first is written first
        self._written: dict[str, Offsets] = {}
        self._cut_short: set[str] = set()
        self.had_recovery_points = False

    def read(self, known: Iterable[TopicPartition]) -> None:
        """A job: read the files. `known`: the logs of the directory, whose key objects are reused."""
        same = {key: key for key in known}
        for name in (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE, CLEANER_OFFSET_FILE):
            found = self._files.read_checkpoint(name)
            self._written[name] = {same.get(key, key): offset for key, offset in (found or {}).items()}
            if name == RECOVERY_POINT_FILE:
                self.had_recovery_points = found is not None

    def recovery_point(self, key: TopicPartition) -> int | None:
        """None when the file is missing: the whole log has to be checked."""
        return self._written[RECOVERY_POINT_FILE].get(key, 0) if self.had_recovery_points else None

    def log_start_offset(self, key: TopicPartition) -> int | None:
        return self._written[LOG_START_OFFSET_FILE].get(key)

    def high_watermark(self, key: TopicPartition) -> int:
        return self._written[REPLICATION_OFFSET_FILE].get(key, 0)

    def first_dirty_offset(self, key: TopicPartition) -> int | None:
        """None for a log that was never compacted."""
        return self._written[CLEANER_OFFSET_FILE].get(key)

    async def forget(self, key: TopicPartition) -> None:
        """Remove a log that is about to be created again: after a crash, a start would apply the entries of the former log to
        it. Raises OSError."""
        async with self._in_order:
            for name, offsets in list(self._written.items()):
                if key in offsets or name in self._cut_short:
                    await self._write(name, {other: offset for other, offset in offsets.items() if other != key})

    async def update(self, name: str, offsets: Offsets) -> None:
        """Write the file unless it has this content. Raises OSError."""
        async with self._in_order:
            if offsets != self._written[name] or name in self._cut_short:
                await self._write(name, offsets)
            else:
                self._written[name] = offsets  # whose keys are the logs' own

    async def follow(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Lower the entries of loaded logs that end before their checkpoints: the next appends must not lie below the recovery
        point, nor count as compacted. Raises OSError."""
        if any((self.recovery_point(key) or 0) > log.offsets.recovery_point for key, log in logs.items()):
            await self.write(RECOVERY_POINT_FILE, recovery_points(logs))
        known = self._written[CLEANER_OFFSET_FILE]
        fallen = {key: offset for key, offset in first_dirty_offsets(logs).items() if offset < known.get(key, 0)}
        if fallen:
            await self.write(CLEANER_OFFSET_FILE, known | fallen)  # it may name logs that are still to be read

    async def write(self, name: str, offsets: Offsets) -> None:
        """Raises OSError."""
        async with self._in_order:
            await self._write(name, offsets)

    async def _write(self, name: str, offsets: Offsets) -> None:
        await self._log_queue.drain()
        # Before the wait: a caller that is cancelled in it has its file written all the same.
        self._written[name] = offsets
        self._cut_short.add(name)
        await self._queue.run(partial(self._files.write_checkpoint, name, offsets))
        self._cut_short.discard(name)


def recovery_points(logs: Mapping[TopicPartition, PartitionLog]) -> Offsets:
    return {key: log.offsets.recovery_point for key, log in logs.items()}


def high_watermarks(logs: Mapping[TopicPartition, PartitionLog]) -> Offsets:
    return {key: log.high_watermark for key, log in logs.items()}


def log_start_offsets(logs: Mapping[TopicPartition, PartitionLog]) -> Offsets:
    """Only of logs that begin behind their first segment's base: the others' files say it."""
    return {key: log.log_start_offset for key, log in logs.items() if log.log_start_offset > log.base_offset}


def first_dirty_offsets(logs: Mapping[TopicPartition, PartitionLog]) -> Offsets:
    """Only of logs that were compacted once."""
    return {
        key: log.offsets.first_dirty_offset for key, log in logs.items() if log.offsets.first_dirty_offset is not None
    }
