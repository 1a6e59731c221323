"""Changes a log's ends: deletes records at its start, and truncates it at its end.

The middle layer of a log, see `storage.log.log_state`. `storage.log.truncation` changes the files.

Rules, invariants and sources: see `storage.log.partition_log`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from protocol.errors import ErrorCode, KafkaError
from storage.free_space import Room
from storage.log.log_state import LogState
from storage.log.producer_state import NO_PRODUCERS
from storage.log.retention import SegmentExtent, expired_segments
from storage.log.segment_swap import swap_segments
from storage.log.truncation import (
    drop_segments,
    drop_segments_without_files,
    producers_after_truncation,
    restart_segments,
    truncate_segments,
)
from storage.segments.segment import NO_TIMESTAMP, Segment
from storage.segments.segment_age import AGES_AT_ONCE, SegmentAge, segment_ages
from storage.segments.segment_copy import CleanedSegment
from storage.segments.segment_files import SNAPSHOT_SUFFIX

logger = logging.getLogger(__name__)


class LogEnds(LogState):
    """The part of a log that removes records: retention and DeleteRecords at the start, truncation at the end."""

    __slots__ = ()

    def delete_records(self, offset: int) -> int:
        """Make records below `offset` invisible to readers; returns the new log start offset.

        Raises OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot delete {self._name} up to {offset}: its high watermark is {self.high_watermark}.",
            )
        self.raise_log_start_offset(offset)
        return self.log_start_offset

    def raise_log_start_offset(self, offset: int) -> None:
        """Begin the log at `offset`, unless it begins later already."""
        if offset <= self.log_start_offset:
            return
        assert offset <= self.log_end_offset
        self.log_start_offset = offset
        self._epoch_file.truncate_from_start(offset)
        self.start_listener.on_start_raised()

    async def delete_old_segments(self) -> int:
        """Set aside the segments that retention expires; returns how many. Raises KAFKA_STORAGE_ERROR."""
        ages: dict[Segment, SegmentAge] = {}
        while self._may_lose_segments:
            segments = list(self._segments)
            now_ms = self._environment.clock.wall_ms()
            expired = expired_segments(
                [self._extent(segment, ages.get(segment)) for segment in segments],
                self.config,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                now_ms=now_ms,
            )
            if expired.undated is not None and not self._lacks_files(segments[expired.undated]):
                untold = segments[expired.undated : expired.undated + AGES_AT_ONCE]
                await self._load_ages([segment for segment in untold if not self._lacks_files(segment)], ages)
            elif not expired.count:
                return 0
            elif segments[-1].is_awaited and self._environment.space.room is not Room.OPEN:
                await self._environment.queue.drain()  # there may be no room for its files
                if segments[-1].is_awaited:
                    return 0
            elif expired.count < len(segments):
                logger.info(
                    "old segments deleted by retention: topic=%s partition=%d "
                    "start_offset_segments=%d size_segments=%d time_segments=%d",
                    self.topic,
                    self.partition,
                    expired.by_start_offset,
                    expired.by_size,
                    expired.by_time,
                )
                return await self.delete_segments_before(segments[self._deletable_count(expired.count)].base_offset)
            elif self.is_halted:
                return 0  # there is no room for another segment
            elif segments[-1].file is None:
                await self._reader.cold.open(segments[-1])  # it is finished like any other segment
            else:
                self._writer.roll(self.next_offset, now_ms)
        return 0

    @property
    def undated_segment(self) -> Segment | None:
        """The oldest segment, if `delete_old_segments` would have to read its files to learn its age; else None."""
        oldest = self._segments.first
        if oldest.knows_timestamps or self.config.retention_ms < 0 or not self.config.deletes_by_retention:
            return None
        return oldest if self._may_lose_segments and not self._lacks_files(oldest) else None

    def _lacks_files(self, segment: Segment) -> bool:
        """Whether the segment's files could not be created, because the disk was full."""
        return self.is_halted and segment.file is None and not segment.end_bytes

    def _deletable_count(self, count: int) -> int:
        """Return how many of the `count` oldest segments may be deleted. The last segments of a halted log may have no files,
        and a folder without any would begin at offset 0 after a crash."""
        if not self.is_halted:
            return count
        return min(count, max((at for at, segment in enumerate(self._segments) if segment.end_bytes), default=0))

    @property
    def _may_lose_segments(self) -> bool:
        if self._truncation is not None or self._is_closed:
            return False
        return self._is_idle or not (self._writer.refusals.failure is not None or self._writer.pending.is_buffering)

    def _extent(self, segment: Segment, age: SegmentAge | None) -> SegmentExtent:
        following = self._segments.after(segment)
        newest_ms: int | None = None
        if segment.knows_timestamps and segment.max_timestamp > NO_TIMESTAMP:
            newest_ms = segment.max_timestamp
        elif age is not None:
            is_as_it_was = age.size_bytes == segment.end_bytes
            newest_ms = age.newest_ms if is_as_it_was else self._environment.clock.wall_ms()
        return SegmentExtent(
            self.next_offset if following is None else following.base_offset, segment.end_bytes, newest_ms
        )

    async def _load_ages(self, segments: Sequence[Segment], ages: dict[Segment, SegmentAge]) -> None:
        """Read the ages of segments that were not opened yet, or whose records have no timestamps."""
        environment = self._environment
        job = partial(segment_ages, environment.filesystem, segments, self.config.index_interval_bytes)
        # No append may open the active segment meanwhile, and an awaited segment gets its files only then.
        has_to_queue = self._segments.active in segments or any(segment.is_awaited for segment in segments)
        run = environment.queue.run if has_to_queue else environment.readers.run
        try:
            found = await run(job)
        except FileNotFoundError as error:
            if not any(segment.is_gone or self._lacks_files(segment) for segment in segments):
                self.fail(error)
        except OSError as error:
            self.fail(error)
        else:
            ages.update(zip(segments, found, strict=True))
            for segment, age in zip(segments, found, strict=True):
                segment.learn_age(age)

    async def _write_missing_snapshot(self) -> bool:
        """Write and flush a snapshot of the current producers, after the records that it describes. False when the log was
        closed meanwhile (its folder may have another name) or truncated. Raises KAFKA_STORAGE_ERROR."""
        end_offset, snapshot, truncations = self.next_offset, self.producer_snapshot(self.next_offset), self.truncations
        if snapshot is None or self.is_halted:  # it contains producers of refused batches until `resume`
            return False
        await self.flush()
        if not self._may_lose_segments or self.truncations != truncations or self.recovery_point < end_offset:
            return False
        await self._writer.files.write_snapshot(self.directory, snapshot, end_offset)
        if not self._may_lose_segments or self.truncations != truncations or self.is_halted:
            return False
        self._lacks_snapshot = False
        return True

    async def close_unused_file(self) -> None:
        """Close the file of the active segment, if nothing uses it. The next append or read opens it again."""
        if not self._may_lose_segments:
            return
        active = self._segments.active
        if self._is_idle:
            is_unused = not active.pins  # a file that is closed at the end of a read may be used by an append by then
        else:
            is_unused = await self._writer.write_indexes() and self._may_lose_segments
        if is_unused:
            self._environment.open_segments.close(active)

    async def delete_segments_before(self, offset: int) -> int:
        """Set aside the segments that hold nothing at or above `offset`, never the active one; returns how many.

        Returns None when they hold the only record of some producers. Raises KAFKA_STORAGE_ERROR.
        """
        is_due = self._lacks_snapshot and self._segments.first.base_offset < offset
        if is_due and not await self._write_missing_snapshot():
            return 0  # the next retention run repeats it
        with self._failing_for_good():
            if len(self._producers):
                offset = await self._environment.queue.run(
                    partial(self._last_known_start, list(self._segments), offset)
                )
                if not self._may_lose_segments:
                    return 0
            return await drop_segments(
                self._segments,
                self._reader,
                self._environment,
                offset=offset,
                delay_ms=self.config.file_delete_delay_ms,
                on_truncated=self._begin_at,
            )

    def _last_known_start(self, segments: Sequence[Segment], offset: int) -> int:
        """A job: find the base offset of the newest segment, up to `offset`, that has a snapshot of the producers before it. A
        segment has none when it was begun for records that had waited until the segment before was opened."""
        starts = [segment for segment in segments if segment.base_offset <= offset]
        has_snapshot = (
            each for each in reversed(starts) if self._environment.filesystem.exists(each.path(SNAPSHOT_SUFFIX))
        )
        return next(has_snapshot, segments[0]).base_offset

    def _begin_at(self, offset: int) -> None:
        """Note that the first segment begins at `offset` now."""
        self._writer.durability.begin_at(offset)
        self.raise_log_start_offset(offset)

    @property
    def truncations(self) -> int:
        """The number of truncations: records read before the last one may not be in the log any more."""
        return 0 if self._is_idle else self._writer.durability.truncations

    @property
    def lowest_truncation_offset(self) -> int | None:
        """The lowest offset that the log was truncated to since a copy of it was truncated as well; None without one. A copy
        cannot always find that by epochs: the epochs of the removed records may be unknown to the log by now."""
        return None if self._is_idle else self._writer.durability.lowest_truncation_offset

    @lowest_truncation_offset.setter
    def lowest_truncation_offset(self, offset: int | None) -> None:
        self._writer.durability.lowest_truncation_offset = offset

    def has_closed_segments(self, base_offsets: Sequence[int]) -> bool:
        """Whether the log contains these segments, none of them is active, and no truncation is in progress."""
        known = {segment.base_offset for segment in self._segments if segment is not self._segments.active}
        return self._may_lose_segments and known.issuperset(base_offsets)

    async def replace_segments(self, *cleaned: CleanedSegment) -> None:
        """Replace segments by the cleaned ones made from them. Raises KAFKA_STORAGE_ERROR."""
        assert all(self.has_closed_segments(each.replaced) for each in cleaned)
        with self._failing_for_good():
            await swap_segments(
                self._segments, self._reader, self._environment, cleaned, delay_ms=self.config.file_delete_delay_ms
            )

    async def truncate_to(self, offset: int) -> None:
        """Remove everything at or above `offset`, as a follower does. The caller appends nothing meanwhile."""
        await self._run_shielded(partial(self._truncate, offset))

    async def _truncate(self, offset: int) -> None:
        """Raises OSError."""
        if offset < self._segments.first.base_offset:
            await self._begin_anew(offset)
        elif offset >= self.log_end_offset:
            self._epoch_file.truncate_from_end(offset)
        else:
            await self._truncate_at(offset)

    async def _run_shielded(self, truncate: Callable[[], Awaitable[None]]) -> None:
        """Complete a truncation even when its caller is cancelled: with truncated files and the former state in memory, a log
        would leave producers and epochs of removed records to the next start. Raises KafkaError."""
        tasks = self._environment.tasks
        await self.wait_for_truncation()
        if tasks.is_closed:
            raise self._closed()
        self._begin_truncation()
        task = tasks.spawn(self._outcome_of(truncate), name=f"truncate {self._name}")
        task.add_done_callback(lambda _: self._end_truncation())
        error = await asyncio.shield(task)
        if error is not None:
            raise error

    async def _outcome_of(self, truncate: Callable[[], Awaitable[None]]) -> KafkaError | None:
        """Return the error of a truncation, so that an expected refusal does not end a task with an exception."""
        try:
            await self._writer.pending.await_idle()
            refusal = self._writer.refusals.error
            if refusal is not None:
                return refusal.again()
            with self._failing_for_good():
                await truncate()
                await self._checkpoint_if_fallen()
        except KafkaError as error:
            return error
        return None

    async def _checkpoint_if_fallen(self) -> None:
        """Write the recovery point to its checkpoint when it has fallen. After a crash, a start checks the log only from there
        on, so the next append must not lie below it, nor below the first dirty offset. A flush may still move the point until
        the truncation, so its value then counts. Raises OSError."""
        if self._writer.durability.needs_checkpoint:
            refusal = await self._environment.checkpoint_recovery_points(self.directory)
            if refusal is not None:
                raise refusal
            self._writer.durability.needs_checkpoint = False

    async def _truncate_at(self, offset: int) -> None:
        """Raises OSError."""
        records_end = await truncate_segments(
            self._segments,
            self._reader,
            self._environment,
            offset=offset,
            log_start_offset=lambda: self.log_start_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            on_truncated=self._end_at,
        )
        if records_end is None:
            await self._begin_anew(offset)
            return
        if self._segments.active.end_bytes and records_end < offset:
            self._note_gap()
        self._writer.has_written = True
        self._epoch_file.truncate(offset)
        await self._recall_producers_at(offset)

    def _note_gap(self) -> None:
        """Note that the log was truncated within a gap and continues behind it, perhaps in another segment. At a start, only
        the log's entry in the cleaner's checkpoint distinguishes this from a tear."""
        if self.first_dirty_offset is None:
            self.first_dirty_offset = self.log_start_offset
            self._writer.durability.needs_checkpoint = True

    async def _recall_producers_at(self, offset: int) -> None:
        """Reload the producers after a truncation at `offset`. A log that had none since its start has none then, as in Kafka:
        the snapshot of a clean stop says so, and no record has to be read. Raises OSError."""
        if self._producers is not NO_PRODUCERS:
            self._knows_producers = False  # if a stop does not wait for this, the next start reads the files again
            producers = await producers_after_truncation(self._segments, self._environment, offset=offset)
            self._knows_producers = True
            producers.remember(self._producers)
            self._producers = self._limited(producers)
        self._lacks_snapshot = len(self._producers) > 0

    async def resume(self) -> None:
        """Accept records again after the disk was full: truncate what refused writes left behind the log end, and reload the
        producers. While there is still no room, the log stays halted.

        Nothing happens once a close has begun, because the folder may have another name afterwards. A close that begins later
        waits.
        """
        if not self.is_halted or self._is_closing or self._truncation is not None:
            return
        self._begin_truncation()
        try:
            await self._environment.queue.drain()  # the writes queued behind the refused one, which were dropped
            await self._writer.pending.await_idle()
            if self._writer.refusals.failure is None:
                await self._repair_halted()
        except KafkaError as error:
            logger.info("log remains halted: topic=%s partition=%d error=%s", self.topic, self.partition, error)
        finally:
            self._end_truncation()

    async def _repair_halted(self) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        self._writer.refusals.accept_jobs()
        self._epoch_file.mark_unsaved()
        with self._failing_for_good():
            await drop_segments_without_files(self._segments, self._environment)
            await self._truncate_at(self.log_end_offset)
            await self._writer.pending.await_idle()
            await self._checkpoint_if_fallen()
        if self._writer.refusals.is_sound:
            self._writer.refusals.resume(self._environment.space.refusal(self.topic, is_own=False))
            logger.info(
                "log accepts records again: topic=%s partition=%d end_offset=%d",
                self.topic,
                self.partition,
                self.log_end_offset,
            )

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records and begin again at `offset`. The caller appends nothing meanwhile."""
        await self._run_shielded(partial(self._begin_anew, offset))

    async def _begin_anew(self, offset: int) -> None:
        try:
            await restart_segments(self._segments, self._environment, offset=offset, on_truncated=self._begin_again_at)
        finally:
            self._epoch_file.clear()  # after the records: a crash in between finds both unchanged

    def _begin_truncation(self) -> None:
        self._truncation = asyncio.get_running_loop().create_future()

    def _end_truncation(self) -> None:
        truncation, self._truncation = self._truncation, None
        assert truncation is not None
        truncation.set_result(None)

    def _end_at(self, offset: int) -> None:
        self._writer.end_at(offset)
        self._note_end(offset)

    def _note_end(self, offset: int) -> None:
        self.lowest_truncation_offset = (
            offset if self.lowest_truncation_offset is None else min(self.lowest_truncation_offset, offset)
        )
        self.next_offset = offset
        self._has_checked_end = True  # a truncation may end among offsets that no batch has
        self.log_start_offset = min(self.log_start_offset, offset)  # the truncation may end among deleted records
        self.high_watermark = min(self.high_watermark, offset)
        if self.first_dirty_offset is not None and offset < self.first_dirty_offset:
            self.first_dirty_offset = offset
            self._writer.durability.needs_checkpoint = True  # otherwise a start would take the next records for clean
        self._reader.forget_positions()

    def _begin_again_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self._writer.begin_again_at(offset)
        self._note_end(offset)
        self.lowest_truncation_offset = 0
        self._producers, self._knows_producers = NO_PRODUCERS, True
        self.high_watermark = offset
