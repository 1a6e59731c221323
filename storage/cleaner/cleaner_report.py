"""Collects the cleaner's metrics: those of Kafka's LogCleaner and LogCleanerManager, and the logs that cannot be cleaned.

Rules: plain numbers, read when metrics are scraped. Sizes are in bytes, shares between 0 and 1.
Source: Kafka LogCleaner, LogCleanerManager (gauges).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from runtime.clock import Clock
from storage.cleaner.compaction import CleaningRange
from storage.cleaner.segment_cleaning import CleaningStats
from storage.log.partition_log import PartitionLog


class CleanerReport:
    """Collects the cleaner's metrics. "Last" is the last completed cleaning, or the last check of all logs."""

    __slots__ = (
        "_clock",
        "_delay_ms",
        "_dirty_ratio",
        "_looked_ms",
        "_set_aside",
        "_without_memory",
        "last_buffer_utilization",
        "last_cleaning_ms",
        "last_recopied",
        "max_delay_ms",
        "max_dirty_ratio",
        "moved_bytes",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_ms: int | None = None
        self._dirty_ratio = 0.0
        self._delay_ms = 0
        self._set_aside: dict[PartitionLog, None] = {}
        self._without_memory: dict[PartitionLog, None] = {}
        self.max_dirty_ratio = 0.0
        """Of the dirtiest log, at the last look."""
        self.max_delay_ms = 0
        """By how much the oldest record was over its `max.compaction.lag.ms`, at the last look."""
        self.last_cleaning_ms = 0
        self.last_recopied = 0.0
        """Share of what was read that was written again."""
        self.last_buffer_utilization = 0.0
        self.moved_bytes = 0
        """Read and written since the start."""

    # --- told by the cleaner ---

    def begin_look(self, is_there: Callable[[PartitionLog], bool]) -> None:
        """Forget logs that do not exist any more."""
        self._looked_ms = self._clock.monotonic_ms()
        self._dirty_ratio, self._delay_ms = 0.0, 0
        for logs in (self._set_aside, self._without_memory):
            for log in [log for log in logs if not is_there(log)]:
                del logs[log]

    def saw(self, cleanable: CleaningRange) -> None:
        self._dirty_ratio = max(self._dirty_ratio, cleanable.dirty_ratio)
        self._delay_ms = max(self._delay_ms, cleanable.delay_ms)

    def end_look(self) -> None:
        self.max_dirty_ratio, self.max_delay_ms = self._dirty_ratio, self._delay_ms

    def moved(self, count_bytes: int) -> None:
        self.moved_bytes += count_bytes

    def cleaned(self, log: PartitionLog, stats: CleaningStats, buffer_utilization: float, took_ms: int) -> None:
        self._without_memory.pop(log, None)
        self.last_cleaning_ms = took_ms
        self.last_recopied = stats.bytes_written / max(stats.bytes_read, 1)
        self.last_buffer_utilization = buffer_utilization

    def set_aside(self, log: PartitionLog) -> None:
        """Note that the log cannot be cleaned."""
        self._set_aside[log] = None

    def lacked_memory(self, log: PartitionLog) -> bool:
        """Note that there was no memory to clean the log. Returns whether that is new."""
        is_news = log not in self._without_memory
        self._without_memory[log] = None
        return is_news

    # --- asked ---

    def is_set_aside(self, log: PartitionLog) -> bool:
        return log in self._set_aside

    def lacks_memory(self, log: PartitionLog) -> bool:
        """Whether the last attempt to clean the log lacked memory."""
        return log in self._without_memory

    @property
    def logs_set_aside(self) -> Collection[PartitionLog]:
        return self._set_aside.keys()

    @property
    def since_last_look_ms(self) -> int:
        return 0 if self._looked_ms is None else self._clock.monotonic_ms() - self._looked_ms
