"""Applies retention to all logs periodically, and coordinates it with the cleaner.

    a look at all logs --> cleaned just then: passed over --> carried out for it when that cleaning ends, however it ends
                       --> else: its old segments go, and no cleaning of it begins meanwhile

A cleaning reads the segments of its log from the first to the last, and gives up when one of them goes: a log whose segments
expire sooner than they are cleaned would never be compacted. So the two take turns, log by log; what is passed over holds no
other log up. In a directory without room retention does not wait, for it is what makes some: the cleaning gives up, and the
next look is taken soon.

Rules: runs on the event loop. What fails in one log is told, and the others go on.
Invariant: where there is room no segment goes by retention from under a cleaning.
Source: Kafka LogManager.cleanupLogs, LogCleanerManager.deletableLogs, pauseCleaningForNonCompactedPartitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from config.broker import BrokerSettings
from protocol.errors import KafkaError
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.slices import Slices
from storage.directories.online_directory import OnlineDirectory
from storage.free_space import Room
from storage.log.partition_log import PartitionLog
from storage.log.removal.segment_retention import delete_old_segments, undated_segment
from storage.segments.segment import Segment
from storage.segments.segment_age import AGES_AT_ONCE, segment_ages

logger = logging.getLogger(__name__)


class LogRetention:
    """Applies retention. `directories` and `logs` are the log manager's own, which change; `is_named(key)`: whether the
    settings of its topic are known. Logs that the controller has not named keep everything: their topic may have settings that
    a lost or foreign store lacks."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        clock: Clock,
        directories: Mapping[str, OnlineDirectory],
        logs: Mapping[TopicPartition, PartitionLog],
        is_named: Callable[[TopicPartition], bool],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._directories = directories
        self._logs = logs
        self._is_named = is_named
        self._at_work: set[PartitionLog] = set()
        # Logs that are being cleaned, and whether a look has passed over them.
        self._waiting: dict[PartitionLog, bool] = {}

    async def delete_old_segments(self) -> None:
        """Delete the expired segments of all logs."""
        for directory in list(self._directories.values()):
            await self._load_ages(directory)
        async for log in Slices(self._clock).over(list(self._logs.values())):
            if not self._passes_over(log):
                await self.retain(log)

    async def make_room(self) -> None:
        """Delete the expired segments in directories without room: whoever has deleted records, or shortened a retention, wants
        the space now."""
        for directory in list(self._directories.values()):
            if directory.environment.space.room is Room.OPEN:
                continue
            await self._load_ages(directory)
            async for log in Slices(self._clock).over(list(directory.logs.values())):
                await self.retain(log)

    def _passes_over(self, log: PartitionLog) -> bool:
        if log not in self._waiting or not log.has_room:
            return False
        if not self._waiting[log]:
            self._waiting[log] = True
            logger.info(
                "old segments not deleted while the log is cleaned: topic=%s partition=%d", log.topic, log.partition
            )
        return True

    async def retain(self, log: PartitionLog) -> None:
        """Delete the expired segments of this log."""
        if not self._has_retention(log):
            return
        self._at_work.add(log)
        try:
            await delete_old_segments(log)
        except KafkaError as error:
            logger.warning("retention failed: topic=%s partition=%d error=%s", log.topic, log.partition, error)
        finally:
            self._at_work.remove(log)

    # --- turns ---

    def is_at_work(self, log: PartitionLog) -> bool:
        """Whether segments of the log may be deleted just now: no cleaning of it begins."""
        return log in self._at_work

    def begin_waiting(self, log: PartitionLog) -> None:
        """Note that a cleaning of the log begins."""
        self._waiting[log] = False

    def end_waiting(self, log: PartitionLog) -> bool:
        """Note that the cleaning has ended; returns whether the log was skipped meanwhile, and needs `retain` immediately."""
        return self._waiting.pop(log)

    # --- looking ---

    def _has_retention(self, log: PartitionLog) -> bool:
        is_held = self._logs.get(log.key) is log
        return is_held and not log.is_empty and self._is_named(log.key) and log not in self._at_work

    async def _load_ages(self, directory: OnlineDirectory) -> None:
        """How old the segments are that retention looks at first, of many logs with one trip to the directory's thread: after a
        start nobody knows, and a trip takes longer than the few small files of a segment."""
        logs = iter(list(directory.logs.values()))
        slices = Slices(self._clock)
        with directory.in_use():
            while self._directories.get(directory.path) is directory:
                segments: list[Segment] = []
                async for log in slices.over(logs):
                    segment = undated_segment(log) if self._has_retention(log) else None
                    if segment is not None:
                        segments.append(segment)
                        if len(segments) == AGES_AT_ONCE:
                            break
                if not segments:
                    return
                job = partial(
                    segment_ages, directory.environment.filesystem, segments, self._settings.log_index_interval_bytes
                )
                try:
                    # In the queue: nobody is to open an active segment for appends meanwhile.
                    found = await directory.queue.run(job)
                except OSError:
                    continue  # its log is asked by itself, and knows what that means
                for segment, age in zip(segments, found, strict=True):
                    segment.learn_age(age)
