"""Runs the periodic work on all logs: checkpoints of their offsets, `flush.ms`, retention (see
`storage.directories.log_retention`), expiry of producers.

Rules: runs on the event loop; whatever touches a disk runs in the queue of its directory. An IO error takes the log's
directory offline; no work ends for it.
Source: Kafka LogManager.startup, ReplicaManager.checkpointHighWatermarks, ProducerStateManager.removeExpiredProducers.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Mapping

from config.broker import BrokerSettings
from protocol.errors import KafkaError
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.slices import Slices
from runtime.tasks import TaskScope
from storage.directories.checkpoints import (
    Offsets,
    first_dirty_offsets,
    high_watermarks,
    log_start_offsets,
    recovery_points,
)
from storage.directories.log_directory import (
    CLEANER_OFFSET_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
)
from storage.directories.log_retention import LogRetention
from storage.directories.online_directory import OnlineDirectory
from storage.log.partition_log import PartitionLog
from storage.log.unused_file import close_unused_file

logger = logging.getLogger(__name__)

REST_INTERVAL_MS = 20_000
"""An active segment that nobody has written to for so long, and twice as long at most, is closed."""
ROOM_INTERVAL_MS = 10_000
"""How often retention looks at a directory without room."""
NEVER_MS = 1 << 53
"""Intervals from here on mean never (Kafka's default is the largest long)."""


class LogUpkeep:
    """The periodic tasks. `directories` and `logs` are the log manager's own, which change; the intervals are those of the
    start's `settings`; `on_failed(directory, error)` is called with IO errors."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        current_settings: Callable[[], BrokerSettings],
        clock: Clock,
        directories: Mapping[str, OnlineDirectory],
        logs: Mapping[TopicPartition, PartitionLog],
        retention: LogRetention,
        on_failed: Callable[[str, OSError], None],
    ) -> None:
        self._settings = settings
        self._current_settings = current_settings
        self._clock = clock
        self._directories = directories
        self._logs = logs
        self._retention = retention
        self._on_failed = on_failed
        # Where logs ended, at the last look, whose active segment was open.
        self._ends: dict[TopicPartition, int] = {}

    def start(self, tasks: TaskScope) -> None:
        """Begin the periodic work."""
        settings = self._settings
        for interval_ms, work, name in (
            (settings.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points, "recovery points"),
            (
                settings.log_flush_start_offset_checkpoint_interval_ms,
                self.checkpoint_log_start_offsets,
                "start offsets",
            ),
            (
                settings.replica_high_watermark_checkpoint_interval_ms,
                self.checkpoint_high_watermarks,
                "high watermarks",
            ),
            (REST_INTERVAL_MS, self.close_idle_files, "idle segments"),
            (settings.log_flush_scheduler_interval_ms, self.flush_due, "flush.ms"),
            (settings.log_retention_check_interval_ms, self._retention.delete_old_segments, "retention"),
            (ROOM_INTERVAL_MS, self._retention.make_room, "retention without room"),
            (settings.producer_id_expiration_check_interval_ms, self.forget_producers, "expired producers"),
        ):
            if 0 < interval_ms < NEVER_MS:
                first_ms = min(settings.log_initial_task_delay_ms, interval_ms)
                tasks.spawn(_repeat(first_ms, interval_ms, work), name=name)

    async def checkpoint_recovery_points(self) -> None:
        for directory in list(self._directories.values()):
            await self._checkpoint(directory, RECOVERY_POINT_FILE, recovery_points(directory.logs_by_key()))

    async def checkpoint_recovery_points_of(self, directory: OnlineDirectory) -> OSError | None:
        """Write the recovery points and first dirty offsets of the log's directory, because one has fallen. Returns the error,
        if any."""
        refusal = await self._checkpoint(directory, RECOVERY_POINT_FILE, recovery_points(directory.logs_by_key()))
        return await self.checkpoint_first_dirty_offsets(directory) or refusal

    async def checkpoint_directory(self, directory: OnlineDirectory) -> OSError | None:
        """Write all checkpoints, because a log has come to `directory`, or left it, or all are closed. Returns the error, if
        any."""
        logs = directory.logs_by_key()
        refusals = [
            await self._checkpoint(directory, RECOVERY_POINT_FILE, recovery_points(logs)),
            await self._checkpoint(directory, LOG_START_OFFSET_FILE, log_start_offsets(logs)),
            await self._checkpoint(directory, REPLICATION_OFFSET_FILE, high_watermarks(logs)),
            await self._checkpoint(directory, CLEANER_OFFSET_FILE, first_dirty_offsets(logs)),
        ]
        return next(filter(None, refusals), None)

    async def checkpoint_first_dirty_offsets(self, directory: OnlineDirectory) -> OSError | None:
        """Write the first dirty offsets. Returns the error, if any."""
        return await self._checkpoint(directory, CLEANER_OFFSET_FILE, first_dirty_offsets(directory.logs_by_key()))

    async def checkpoint_log_start_offsets(self) -> None:
        for directory in list(self._directories.values()):
            await self._checkpoint(directory, LOG_START_OFFSET_FILE, log_start_offsets(directory.logs_by_key()))

    async def checkpoint_high_watermarks(self) -> None:
        for directory in list(self._directories.values()):
            await self._checkpoint(directory, REPLICATION_OFFSET_FILE, high_watermarks(directory.logs_by_key()))
        await self._save_epochs()

    async def _save_epochs(self) -> None:
        """One file after the other: what is appended meanwhile does not wait for all of them."""
        for log in [log for log in self._logs.values() if log.epochs.has_unsaved]:
            if log.failure is None and self._is_here(log):
                log.epochs.save()
                await log.await_queued_files()

    def _is_here(self, log: PartitionLog) -> bool:
        """Whoever waits between two logs asks: the folder of one that was deleted meanwhile has another name, and a
        write that misses it would count as a failure of the whole directory."""
        return self._logs.get(log.key) is log

    async def _checkpoint(self, directory: OnlineDirectory, name: str, offsets: Offsets) -> OSError | None:
        """Answers why the file does not say so, of which the directory has heard."""
        if self._directories.get(directory.path) is not directory:  # it went offline while others were written
            return OSError(errno.EIO, f"The log directory {directory.path} is offline.")
        if not directory.is_loaded:  # a start that was refused: its files know more than this broker
            return OSError(errno.EIO, f"The log directory {directory.path} was not loaded.")
        try:
            with directory.in_use():
                await directory.checkpoints.update(name, offsets)
        except OSError as error:
            self._on_failed(directory.path, error)
            return error
        return None

    async def flush_due(self) -> None:
        """Flush the logs whose `flush.ms` has passed."""
        now_ms = self._clock.monotonic_ms()
        for log in list(self._logs.values()):
            if log.is_flush_due(now_ms) and self._is_here(log):
                try:
                    await log.flush()
                except KafkaError as error:
                    logger.warning("flush failed: topic=%s partition=%d error=%s", log.topic, log.partition, error)

    async def close_idle_files(self) -> None:
        """Close the files of active segments to which nothing was appended since the last run: few of ten thousand partitions
        are written to."""
        before, self._ends = self._ends, {}
        is_open = [(key, log) for key, log in self._logs.items() if log.has_open_file]
        async for key, log in Slices(self._clock).over(is_open):
            if not log.has_open_file or not self._is_here(log):
                continue
            if before.get(key) == log.offsets.next_offset:
                await close_unused_file(log)
            else:
                self._ends[key] = log.offsets.next_offset

    async def forget_producers(self) -> None:
        """Drop the state of producers that were silent for `producer.id.expiration.ms`."""
        now_ms, expiration_ms = self._clock.wall_ms(), self._current_settings().producer_id_expiration_ms
        for log in list(self._logs.values()):
            log.producers.remove_expired(now_ms, expiration_ms)


async def _repeat(first_ms: int, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    delay_ms = first_ms
    while True:
        await asyncio.sleep(delay_ms / 1000)
        await work()
        delay_ms = interval_ms
