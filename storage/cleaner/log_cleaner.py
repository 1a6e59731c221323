"""The cleaner: compacts the logs that need it most, in the background.

    worker: choose the dirtiest log -> build its offset map -> clean group by group -> swap -> checkpoint -> next
            nothing to clean: wait log.cleaner.backoff.ms

Planning is `storage.cleaner.compaction`, the work itself `storage.cleaner.segment_cleaning`, in steps of some 2 ms that run
in reader threads one by one, so that the event loop waits for the interpreter no longer than that. Between two steps a worker
waits for `log.cleaner.io.max.bytes.per.second`, and aborts when its log was truncated, deleted, closed or is being moved. The
new files are removed then; the segments that they would have replaced are untouched. Retention of the log waits for it, and
comes first when it ends (`storage.directories.log_retention`).

Rules: runs on the event loop; disks are touched in jobs. A log that cannot be cleaned, because it has an invalid batch, is
marked uncleanable and reported; the others are cleaned. A full disk ends a cleaning, any other IO error takes the directory
offline. A cleaning that lacks memory is retried when no other log needs to be cleaned.
Invariants: a log is cleaned by one worker at a time, and none begins while retention is at work in it; only what was flushed
is cleaned, or counts as a reason to drop what came before; the checkpoint names an offset only after every segment below it was
exchanged.
Source: Kafka LogCleaner, LogCleanerManager, Throttler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from config.broker import BrokerSettings
from protocol.errors import KafkaError
from protocol.records.invalid import InvalidBatch
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.disk.disk_queue import Readers
from runtime.disk.filesystem import FileSystem
from runtime.slices import Slices
from runtime.tasks import TaskScope
from storage.cleaner.batch_cleaning import LastRecord
from storage.cleaner.cleaner_report import CleanerReport
from storage.cleaner.cleaner_throttle import CleanerThrottle
from storage.cleaner.compaction import (
    CleaningRange,
    SegmentFacts,
    SegmentSizes,
    cleaning_range,
    first_dirty_offset,
    needs_timestamps,
)
from storage.cleaner.segment_cleaning import CleaningRequest, LogCleaning
from storage.directories.log_retention import LogRetention
from storage.directories.online_directory import OnlineDirectory
from storage.free_space import Room, is_no_space
from storage.log.partition_log import PartitionLog
from storage.log.segment_replacement import has_closed_segments, replace_segments
from storage.segments.segment import NO_TIMESTAMP, Segment
from storage.segments.segment_age import SegmentAge, first_batch_timestamps, segment_ages
from storage.segments.segment_copy import CleanedSegment, SegmentOverflow, discard_cleaned
from storage.segments.segment_split import log_split, split_segment
from storage.segments.txn_index import CorruptTxnIndex

logger = logging.getLogger(__name__)

_MAX_THROTTLE_WAIT_MS = 300  # between two looks whether the limit is another, or the cleaning aborted
_MIN_BACKOFF_MS = 10

T = TypeVar("T")


class CleaningAborted(Exception):
    """Raised when the log has changed since the cleaning began, or is needed elsewhere."""


class NoMemory(Exception):
    """Raised when the system has no memory for the work; the segments are unchanged."""


class _Cleaning:
    """A cleaning in progress, or a candidate for the next one."""

    __slots__ = ("_is_being_moved", "cleanable", "directory", "ended", "is_aborted", "log", "segments", "truncations")

    def __init__(
        self,
        directory: OnlineDirectory,
        log: PartitionLog,
        cleanable: CleaningRange,
        is_being_moved: Callable[[PartitionLog], bool],
    ) -> None:
        self.directory = directory
        self.log = log
        self.cleanable = cleanable
        self._is_being_moved = is_being_moved
        self.truncations = log.offsets.truncations_count
        end_offset = cleanable.first_uncleanable_offset
        self.segments: Sequence[int] = [each.base_offset for each in log.segments if each.base_offset < end_offset]
        """Base offsets of those that are not exchanged yet."""
        self.is_aborted = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_current(self) -> bool:
        """Whether the log still has the segments that the cleaning reads."""
        log = self.log
        if self.is_aborted or self.truncations != log.offsets.truncations_count or self._is_being_moved(log):
            return False
        if log.is_halted:  # its producers include those of refused batches until it resumes
            return False
        return has_closed_segments(log, self.segments)

    def check(self) -> None:
        if not self.is_current:
            raise CleaningAborted


class LogCleaner:
    """Cleans compacted logs. `directories` is the log manager's own, which changes; logs that the controller has not named
    (`is_named`) are not cleaned, as the settings of their topics may not be known. `retention` takes turns with it.

    `checkpoint(directory)` writes the directory's cleaner checkpoint, and answers why not; `on_failed(directory path, error)`
    hears of IO errors.
    """

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        clock: Clock,
        filesystem: FileSystem,
        readers: Readers,
        directories: Mapping[str, OnlineDirectory],
        is_named: Callable[[TopicPartition], bool],
        retention: LogRetention,
        checkpoint: Callable[[OnlineDirectory], Awaitable[OSError | None]],
        on_failed: Callable[[str, OSError], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._filesystem = filesystem
        self._readers = readers
        self._directories = directories
        self._is_named = is_named
        self._retention = retention
        self._checkpoint = checkpoint
        self._on_failed = on_failed
        self._tasks: TaskScope | None = None
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._busy: dict[PartitionLog, _Cleaning] = {}
        self._paused: dict[PartitionLog, int] = {}
        self._is_closed = False
        self._settings_changed = asyncio.Event()
        self._throttle = CleanerThrottle()
        self.report = CleanerReport(clock)

    # --- life ---

    def start(self, tasks: TaskScope) -> None:
        """Begin to clean, unless `log.cleaner.enable` is false."""
        if self._settings.log_cleaner_enable:
            self._tasks = tasks
            self._hire()

    def change_settings(self, settings: BrokerSettings) -> None:
        """Apply new settings: limits immediately, buffers from the next cleaning on."""
        self._settings = settings
        self._settings_changed.set()
        self._settings_changed = asyncio.Event()
        self._hire()

    def _hire(self) -> None:
        if self._tasks is None or self._tasks.is_closed or self._is_closed:
            return
        for number in range(self._settings.log_cleaner_threads):
            worker = self._workers.get(number)
            if worker is None or worker.done():
                self._workers[number] = self._tasks.spawn(self._work(number), name=f"cleaner {number}")

    @property
    def dead_workers(self) -> int:
        """The number of workers that have ended with an error."""
        return sum(
            worker.done() and not worker.cancelled() and worker.exception() is not None
            for worker in self._workers.values()
        )

    async def close(self) -> None:
        """Abort every cleaning, and begin none."""
        self._is_closed = True
        for cleaning in list(self._busy.values()):
            cleaning.is_aborted = True
        for cleaning in list(self._busy.values()):
            await asyncio.shield(cleaning.ended)

    async def abort(self, log: PartitionLog) -> None:
        """Abort a cleaning of this log; none is in progress when this returns, but a later one may begin."""
        cleaning = self._busy.get(log)
        if cleaning is not None:
            cleaning.is_aborted = True
            await asyncio.shield(cleaning.ended)

    @asynccontextmanager
    async def paused(self, log: PartitionLog) -> AsyncIterator[None]:
        """Keep the log from being cleaned within the block."""
        self._paused[log] = self._paused.get(log, 0) + 1
        try:
            await self.abort(log)
            yield
        finally:
            self._paused[log] -= 1
            if not self._paused[log]:
                del self._paused[log]

    async def _work(self, number: int) -> None:
        while number < self._settings.log_cleaner_threads and not self._is_closed:
            if not await self.clean_dirtiest():
                await self._back_off()

    async def _back_off(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(self._settings.log_cleaner_backoff_ms, _MIN_BACKOFF_MS) / 1000):
                await self._settings_changed.wait()

    def dirty_bytes(self, log: PartitionLog) -> int:
        """Return the bytes of the closed segments that were not cleaned."""
        first_dirty = self._first_dirty_offset(log)
        return sum(each.written_bytes for each in list(log.segments)[:-1] if each.base_offset >= first_dirty)

    # --- choosing ---

    async def clean_dirtiest(self) -> bool:
        """Clean the log that needs it most; returns whether one was cleaned. Retention that it delayed follows."""
        cleaning = await self._choose()
        if cleaning is None:
            return False
        log = cleaning.log
        try:
            is_cleaned = await self._attempt(cleaning)
        finally:
            del self._busy[log]
            cleaning.ended.set_result(None)
            is_awaited = self._retention.end_waiting(log)
        if is_awaited and not self._is_closed:
            await self._retention.retain(log)
        return is_cleaned

    async def _attempt(self, cleaning: _Cleaning) -> bool:
        """Clean the log; returns whether that succeeded."""
        log = cleaning.log
        try:
            await self._clean(cleaning)
        except CleaningAborted:
            logger.info("cleaning aborted: topic=%s partition=%d", log.topic, log.partition)
        except (InvalidBatch, CorruptTxnIndex) as error:
            if cleaning.is_current:
                self.report.set_aside(log)
                logger.error(  # noqa: TRY400 - the problem is in the file, not here
                    "log cannot be cleaned, it is excluded from cleaning: topic=%s partition=%d error=%s",
                    log.topic, log.partition, error,
                )  # fmt: skip
        except NoMemory as error:
            if self.report.lacked_memory(log):
                logger.warning(
                    "no memory for cleaning, retrying later: topic=%s partition=%d error=%s",
                    log.topic, log.partition, error.__cause__,
                )  # fmt: skip
        except KafkaError as error:
            logger.warning("cleaning failed: topic=%s partition=%d error=%s", log.topic, log.partition, error)
        except OSError as error:
            if is_no_space(error):
                logger.warning(
                    "no disk space for cleaning: topic=%s partition=%d error=%s", log.topic, log.partition, error
                )
            elif cleaning.is_current:
                self._on_failed(cleaning.directory.path, error)
        else:
            return True
        return False

    async def _choose(self) -> _Cleaning | None:
        """Return the log with the largest dirty ratio of those that are due; one that lacked memory comes last."""
        now_ms = self._clock.wall_ms()
        dirtiest: _Cleaning | None = None
        rank = (False, 0.0)
        self.report.begin_look(self._is_there)
        slices = Slices(self._clock)
        for directory in list(self._directories.values()):
            compacted = [log for log in directory.logs.values() if log.config.is_compacted]
            async for log in slices.over(compacted):
                if not self._may_clean(directory, log):
                    continue
                cleanable = await self._range_of(log, now_ms)
                if cleanable is None or not self._may_clean(directory, log):
                    continue
                self.report.saw(cleanable)
                own_rank = (not self.report.lacks_memory(log), cleanable.dirty_ratio)
                if cleanable.is_due(log.config) and (dirtiest is None or own_rank > rank):
                    dirtiest, rank = _Cleaning(directory, log, cleanable, self._is_being_moved), own_rank
        self.report.end_look()
        # Other logs were examined since: this one may have been truncated meanwhile, or have lost segments.
        if dirtiest is None or not self._may_clean(dirtiest.directory, dirtiest.log) or not dirtiest.is_current:
            return None
        self._busy[dirtiest.log] = dirtiest
        self._retention.begin_waiting(dirtiest.log)
        return dirtiest

    def _may_clean(self, directory: OnlineDirectory, log: PartitionLog) -> bool:
        return (
            log.config.is_compacted
            and log.segments_count > 1
            and directory.logs.get(log.key) is log
            and self._is_named(log.key)
            and log not in self._busy
            and log not in self._paused
            and not self._retention.is_at_work(log)
            and not self._is_being_moved(log)
            and not self._is_closed
            and not self.report.is_set_aside(log)
            and has_closed_segments(log, ())
            and not log.is_halted
            and directory.environment.space.room is not Room.NONE
        )

    def _is_there(self, log: PartitionLog) -> bool:
        return any(directory.logs.get(log.key) is log for directory in self._directories.values())

    def _is_being_moved(self, log: PartitionLog) -> bool:
        """Whether the log has a copy in another directory, which needs the same records below the same first dirty offset."""
        return any(log.key in directory.future_logs for directory in self._directories.values())

    async def _range_of(self, log: PartitionLog, now_ms: int) -> CleaningRange | None:
        """Return the cleanable range; None when it cannot be determined now."""
        ages: dict[Segment, SegmentAge] = {}
        firsts: dict[Segment, int] = {}
        if needs_timestamps(log.config, now_ms=now_ms):
            dirty = log.segments.starting_from(self._first_dirty_offset(log))[:-1]
            closed = [each for each in dirty if not each.knows_timestamps or each.max_timestamp == NO_TIMESTAMP]
            undated = [each for each in dirty if each.first_timestamp == NO_TIMESTAMP]
            try:
                job = partial(segment_ages, self._filesystem, closed, log.config.index_interval_bytes)
                ages = dict(zip(closed, await self._readers.run(job), strict=True))
                job_of_firsts = partial(first_batch_timestamps, self._filesystem, undated)
                firsts = dict(zip(undated, await self._readers.run(job_of_firsts), strict=True))
            except OSError as error:
                # Its segments were removed meanwhile, or a cleaning will raise the same error.
                logger.info(
                    "log not checked for cleaning: topic=%s partition=%d error=%s", log.topic, log.partition, error
                )
                return None
            for segment, age in ages.items():
                segment.learn_age(age)
            for segment, timestamp in firsts.items():
                segment.first_timestamp = timestamp
        facts = [
            SegmentFacts(
                segment.base_offset,
                segment.written_bytes,
                segment.max_timestamp if segment not in ages else ages[segment].newest_ms,
                segment.first_timestamp,
            )
            for segment in log.segments
        ]
        unstable_offset = log.producers.states.first_unstable_offset
        stable_offset = log.high_watermark if unstable_offset is None else min(unstable_offset, log.high_watermark)
        return cleaning_range(
            facts,
            log.config,
            first_dirty_offset=self._first_dirty_offset(log),
            last_stable_offset=stable_offset,
            now_ms=now_ms,
        )

    def _first_dirty_offset(self, log: PartitionLog) -> int:
        return first_dirty_offset(log.offsets.first_dirty_offset, log.log_start_offset, log.log_end_offset)

    # --- cleaning ---

    async def _clean(self, cleaning: _Cleaning) -> None:
        log, cleanable, started_ms = cleaning.log, cleaning.cleanable, self._clock.monotonic_ms()
        request = self._request(cleaning)
        if log.offsets.recovery_point < cleanable.first_uncleanable_offset:
            await log.flush()
        cleaning.check()
        work = await self._run(partial(LogCleaning, self._filesystem, request))
        aborted = await log.reading.aborted_transactions(
            cleanable.first_dirty_offset, cleanable.first_uncleanable_offset
        )
        await self._drive(cleaning, work.build_map(aborted))
        horizon_ms = await self._run(work.old_marker_horizon_ms)
        groups = await self._run(work.groups)
        await self._checkpoint_first(cleaning)
        ends = [*(group[0].base_offset for group in groups[1:]), request.first_uncleanable_offset]
        try:
            for group, end_offset in zip(groups, ends, strict=True):
                await self._clean_group(cleaning, work, group, end_offset, horizon_ms)
        except SegmentOverflow as overflow:
            await self._split(cleaning, overflow.base_offset)
            raise CleaningAborted from overflow
        cleaning.check()
        log.offsets.first_dirty_offset = work.end_offset
        await self._checkpoint(cleaning.directory)
        took_ms = self._clock.monotonic_ms() - started_ms
        self.report.cleaned(log, work.stats, work.map.utilization, took_ms)
        logger.info(
            "log cleaned: topic=%s partition=%d start_offset=%d end_offset=%d duration_ms=%d "
            "read_bytes=%d written_bytes=%d read_records=%d written_records=%d buffer_percent=%d",
            log.topic, log.partition, cleanable.first_dirty_offset, work.end_offset, took_ms, work.stats.bytes_read,
            work.stats.bytes_written, work.stats.records_read, work.stats.records_written, 100 * work.map.utilization,
        )  # fmt: skip

    async def _checkpoint_first(self, cleaning: _Cleaning) -> None:
        """Add the log to the cleaner's checkpoint. From the first exchange on there are gaps between its batches; if compaction
        is switched off later, only this entry distinguishes them from tears at a start. Raises OSError."""
        log = cleaning.log
        if log.offsets.first_dirty_offset is None:
            log.offsets.first_dirty_offset = cleaning.cleanable.first_dirty_offset
            refusal = await self._checkpoint(cleaning.directory)
            if refusal is not None:
                log.offsets.first_dirty_offset = None
                raise refusal

    def _request(self, cleaning: _Cleaning) -> CleaningRequest:
        settings, log, cleanable = self._settings, cleaning.log, cleaning.cleanable
        config = log.config
        threads = max(settings.log_cleaner_threads, 1)
        return CleaningRequest(
            directory=log.directory,
            segments=cleaning.segments,
            first_dirty_offset=cleanable.first_dirty_offset,
            first_uncleanable_offset=cleanable.first_uncleanable_offset,
            now_ms=self._clock.wall_ms(),
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            delete_retention_ms=config.delete_retention_ms,
            dedupe_buffer_bytes=settings.log_cleaner_dedupe_buffer_size // threads,
            load_factor=settings.log_cleaner_io_buffer_load_factor,
            io_buffer_bytes=settings.log_cleaner_io_buffer_size // threads // 2,
        )

    async def _clean_group(
        self,
        cleaning: _Cleaning,
        work: LogCleaning,
        group: Sequence[SegmentSizes],
        end_offset: int,
        old_marker_horizon_ms: int,
    ) -> None:
        log, base_offset = cleaning.log, group[0].base_offset
        aborted = await log.reading.aborted_transactions(base_offset, end_offset)
        result: list[CleanedSegment] = []
        producers, safe_offset = active_producers(log), log.offsets.next_offset
        if producers and log.offsets.recovery_point < safe_offset:
            await log.flush()  # a batch goes because a later one tells the same of its producer: that one must be safe
            cleaning.check()
            if log.offsets.recovery_point < safe_offset:
                raise CleaningAborted
        steps = work.clean_group(group, aborted, producers, old_marker_horizon_ms, result)
        await self._copy(cleaning, steps, [base_offset])
        await replace_segments(log, result[0])
        cleaning.segments = [each for each in cleaning.segments if each >= end_offset]

    async def _split(self, cleaning: _Cleaning, base_offset: int) -> None:
        """Split an overflowing segment, so that the next cleaning of the log succeeds."""
        log = cleaning.log
        parts: list[CleanedSegment] = []
        begun: list[int] = []
        interval_bytes = log.config.index_interval_bytes
        steps = split_segment(self._filesystem, log.directory, base_offset, interval_bytes, parts, begun)
        await self._copy(cleaning, steps, begun)
        await replace_segments(log, *parts)
        log_split(log.directory, base_offset, parts)

    async def _copy(self, cleaning: _Cleaning, steps: Iterator[int], begun: Sequence[int]) -> None:
        """Run the steps that write new segments; when they fail, remove those that were `begun` (base offsets)."""
        try:
            await self._drive(cleaning, steps)
            cleaning.check()
        except (CleaningAborted, NoMemory, KafkaError, OSError, CorruptTxnIndex, SegmentOverflow):
            with suppress(OSError):  # what is left goes at the next start
                await self._readers.run(partial(discard_cleaned, self._filesystem, cleaning.log.directory, begun))
            raise

    async def _drive(self, cleaning: _Cleaning, steps: Iterator[int]) -> None:
        """Run the steps, one by one."""
        while True:
            cleaning.check()
            moved_bytes = await self._run(partial(next, steps, None))
            if moved_bytes is None:
                return
            self._throttle.moved(moved_bytes)
            self.report.moved(moved_bytes)
            await self._wait_for_throttle(cleaning)

    async def _run(self, job: Callable[[], T]) -> T:
        """Run one step in a thread; it changes no segment of the log. Raises NoMemory."""
        try:
            return await self._readers.run(job)
        except MemoryError as error:
            raise NoMemory from error

    async def _wait_for_throttle(self, cleaning: _Cleaning) -> None:
        while cleaning.is_current:
            rate = self._settings.log_cleaner_io_max_bytes_per_second
            wait_ms = self._throttle.wait_ms(rate, self._clock.monotonic_ms())
            if not wait_ms:
                return
            await asyncio.sleep(min(wait_ms, _MAX_THROTTLE_WAIT_MS) / 1000)


def active_producers(log: PartitionLog) -> dict[int, LastRecord]:
    """Return what is known of the log's producers, and would be lost with their last batches."""
    return {
        producer_id: LastRecord(last_data_offset, epoch)
        for producer_id, last_data_offset, epoch in log.producers.states.last_records()
    }
