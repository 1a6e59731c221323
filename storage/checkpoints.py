"""The offset checkpoints of one log directory: what the last start left in them, and bringing them up to date.

`recovery-point-offset-checkpoint` (below it a log is on the disk), `log-start-offset-checkpoint` (where a log begins, when
its files do not say it) and `replication-offset-checkpoint` (high watermarks).

Rules: `read` is a job; the rest runs on the event loop and writes in the directory's queue. A file is written only when
it would say something else.
Invariant: what is remembered of a file is what the file holds, or held before its log was made anew.
Source: Kafka LogManager.checkpointLogRecoveryOffsets and checkpointLogStartOffsets, ReplicaManager.checkpointHighWatermarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from runtime.disk import DiskQueue
from storage.log import PartitionLog
from storage.log_directory import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    LogDirectory,
)

Key = tuple[str, int]
Offsets = dict[Key, int]


class Checkpoints:
    """`had_recovery_points`: there was a file of them, so that a log it does not name is younger than it."""

    __slots__ = ("_files", "_queue", "_written", "had_recovery_points")

    def __init__(self, files: LogDirectory, queue: DiskQueue) -> None:
        self._files = files
        self._queue = queue
        self._written: dict[str, Offsets] = {}
        self.had_recovery_points = False

    def read(self) -> None:
        """A job."""
        for name in (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE):
            found = self._files.read_checkpoint(name)
            self._written[name] = found or {}
            if name == RECOVERY_POINT_FILE:
                self.had_recovery_points = found is not None

    def recovery_point(self, key: Key) -> int | None:
        """None when nothing is known of any log: this one has to be walked as a whole."""
        return self._written[RECOVERY_POINT_FILE].get(key, 0) if self.had_recovery_points else None

    def log_start_offset(self, key: Key) -> int | None:
        return self._written[LOG_START_OFFSET_FILE].get(key)

    def high_watermark(self, key: Key) -> int:
        return self._written[REPLICATION_OFFSET_FILE].get(key, 0)

    def forget(self, key: Key) -> None:
        """A log of this name is made anew."""
        for offsets in self._written.values():
            offsets.pop(key, None)

    async def update(self, name: str, offsets: Offsets) -> None:
        """Write the file unless it says so already. Raises OSError."""
        if offsets != self._written[name]:
            await self.write(name, offsets)

    async def write(self, name: str, offsets: Offsets) -> None:
        """Raises OSError."""
        await self._queue.run(partial(self._files.write_checkpoint, name, offsets))
        self._written[name] = offsets


def recovery_points(logs: Mapping[Key, PartitionLog]) -> Offsets:
    return {key: log.recovery_point for key, log in logs.items()}


def high_watermarks(logs: Mapping[Key, PartitionLog]) -> Offsets:
    return {key: log.high_watermark for key, log in logs.items()}


def log_start_offsets(logs: Mapping[Key, PartitionLog]) -> Offsets:
    """Only of logs that begin behind their first segment's base: the others' files say it."""
    return {
        key: log.log_start_offset for key, log in logs.items() if log.log_start_offset > log.segments.first.base_offset
    }
