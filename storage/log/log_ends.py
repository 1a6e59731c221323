"""A log's ends: records that are deleted at its start, and cut off at its end.

The middle layer of a log, see `storage.log.log_state`. What is done to the files stands in `storage.log.truncation`.

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
    cut_segments,
    drop_segments,
    drop_unmade_segments,
    producers_of_cut,
    restart_segments,
)
from storage.segments.segment import NO_TIMESTAMP, Segment
from storage.segments.segment_age import AGES_AT_ONCE, SegmentAge, segment_ages
from storage.segments.segment_copy import CleanedSegment
from storage.segments.segment_files import SNAPSHOT_SUFFIX

logger = logging.getLogger(__name__)


class LogEnds(LogState):
    """See the module."""

    __slots__ = ()

    def delete_records(self, offset: int) -> int:
        """Records below `offset` are gone for readers; answers the new log start offset.

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
        """The log begins at `offset` now, unless it begins later already."""
        if offset <= self.log_start_offset:
            return
        assert offset <= self.log_end_offset
        self.log_start_offset = offset
        self._epoch_file.truncate_from_start(offset)
        self.start_listener.on_start_raised()

    async def delete_old_segments(self) -> int:
        """Set aside the segments that retention lets go; answers how many. Raises KAFKA_STORAGE_ERROR."""
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
            if expired.undated is not None and not self._is_unmade(segments[expired.undated]):
                untold = segments[expired.undated : expired.undated + AGES_AT_ONCE]
                await self._learn_ages([segment for segment in untold if not self._is_unmade(segment)], ages)
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
                return await self.delete_segments_before(segments[self._may_go(expired.count)].base_offset)
            elif self.is_halted:
                return 0  # there is no room for another segment
            elif segments[-1].file is None:
                await self._reader.cold.open(segments[-1])  # it is to be finished like any other
            else:
                self._writer.roll(self.next_offset, now_ms)
        return 0

    @property
    def undated_segment(self) -> Segment | None:
        """The oldest segment, if `delete_old_segments` would have to ask the files how old it is."""
        oldest = self._segments.first
        if oldest.knows_timestamps or self.config.retention_ms < 0 or not self.config.deletes_by_retention:
            return None
        return oldest if self._may_lose_segments and not self._is_unmade(oldest) else None

    def _is_unmade(self, segment: Segment) -> bool:
        """Whether there was no room for the segment's files."""
        return self.is_halted and segment.file is None and not segment.end_bytes

    def _may_go(self, count: int) -> int:
        """So many of the `count` oldest segments, for the last ones of a log that has halted may have no files: a folder
        without any would begin at offset 0 after a crash."""
        if not self.is_halted:
            return count
        return min(count, max((at for at, segment in enumerate(self._segments) if segment.end_bytes), default=0))

    @property
    def _may_lose_segments(self) -> bool:
        if self._truncation is not None or self._is_closed:
            return False
        return self._is_at_rest or not (self._writer.failure is not None or self._writer.is_held)

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

    async def _learn_ages(self, segments: Sequence[Segment], ages: dict[Segment, SegmentAge]) -> None:
        """Ask the files of segments that were not opened yet, or whose records have no timestamps."""
        environment = self._environment
        job = partial(segment_ages, environment.filesystem, segments, self.config.index_interval_bytes)
        # Nobody is to open the active segment for appends meanwhile, and one that is awaited has its files only then.
        has_to_queue = self._segments.active in segments or any(segment.is_awaited for segment in segments)
        run = environment.queue.run if has_to_queue else environment.readers.run
        try:
            found = await run(job)
        except FileNotFoundError as error:
            if not any(segment.is_gone or self._is_unmade(segment) for segment in segments):
                self.fail(error)
        except OSError as error:
            self.fail(error)
        else:
            ages.update(zip(segments, found, strict=True))
            for segment, age in zip(segments, found, strict=True):
                segment.learn_age(age)

    async def _write_missing_snapshot(self) -> bool:
        """Of the producers as they are now, on the disk with all that they have written. False when the log is closed
        meanwhile, and its folder may have another name, or was cut. Raises KAFKA_STORAGE_ERROR."""
        end_offset, snapshot, cuts = self.next_offset, self.producer_snapshot(self.next_offset), self.cuts
        if snapshot is None or self.is_halted:  # it knows producers of what was refused, until it goes on
            return False
        await self.flush()
        if not self._may_lose_segments or self.cuts != cuts or self.recovery_point < end_offset:
            return False
        await self._writer.write_snapshot(snapshot, end_offset)
        if not self._may_lose_segments or self.cuts != cuts or self.is_halted:
            return False
        self._lacks_snapshot = False
        return True

    async def rest(self) -> None:
        """Close the file of the active segment, if nobody uses it. The next append or read opens it again."""
        if not self._may_lose_segments:
            return
        active = self._segments.active
        if self._is_at_rest:
            is_unused = not active.pins  # a file that is closed when a read is through may be an append's by then
        else:
            is_unused = await self._writer.write_indexes() and self._may_lose_segments
        if is_unused:
            self._environment.open_segments.close(active)

    async def delete_segments_before(self, offset: int) -> int:
        """Set aside the segments that hold nothing at or above `offset`, never the active one; answers how many.

        None while the only trace of some producers would go with them. Raises KAFKA_STORAGE_ERROR.
        """
        is_due = self._lacks_snapshot and self._segments.first.base_offset < offset
        if is_due and not await self._write_missing_snapshot():
            return 0  # the next look will do
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
                on_cut=self._begin_at,
            )

    def _last_known_start(self, segments: Sequence[Segment], offset: int) -> int:
        """A job: where the newest segment begins, up to `offset`, whose snapshot tells of the producers before it. A segment
        has none that was begun for records that had waited for the one before to be opened."""
        starts = [segment for segment in segments if segment.base_offset <= offset]
        has_snapshot = (
            each for each in reversed(starts) if self._environment.filesystem.exists(each.path(SNAPSHOT_SUFFIX))
        )
        return next(has_snapshot, segments[0]).base_offset

    def _begin_at(self, offset: int) -> None:
        """The first segment begins at `offset` now."""
        self._writer.begin_at(offset)
        self.raise_log_start_offset(offset)

    @property
    def cuts(self) -> int:
        """How often the end was cut: what was read of the log before may not be in it any more."""
        return 0 if self._is_at_rest else self._writer.cuts

    @property
    def lowest_cut(self) -> int | None:
        """How far the end was cut since a copy of the log was cut as well; None: not. A copy cannot always tell by epochs:
        those of what was cut off may be none of the log's any more."""
        return None if self._is_at_rest else self._writer.lowest_cut

    @lowest_cut.setter
    def lowest_cut(self, offset: int | None) -> None:
        self._writer.lowest_cut = offset

    def has_closed_segments(self, base_offsets: Sequence[int]) -> bool:
        """Whether the log, which is not being cut, has these, none of them active."""
        known = {segment.base_offset for segment in self._segments if segment is not self._segments.active}
        return self._may_lose_segments and known.issuperset(base_offsets)

    async def replace_segments(self, *cleaned: CleanedSegment) -> None:
        """Take new segments for those they were made from, which the log has. Raises KAFKA_STORAGE_ERROR."""
        assert all(self.has_closed_segments(each.replaced) for each in cleaned)
        with self._failing_for_good():
            await swap_segments(
                self._segments, self._reader, self._environment, cleaned, delay_ms=self.config.file_delete_delay_ms
            )

    async def truncate_to(self, offset: int) -> None:
        """Cut everything at or above `offset`, as a follower does. No appends may run meanwhile."""
        await self._carried_out(partial(self._truncate, offset))

    async def _truncate(self, offset: int) -> None:
        """Raises OSError."""
        if offset < self._segments.first.base_offset:
            await self._begin_anew(offset)
        elif offset >= self.log_end_offset:
            self._epoch_file.truncate_from_end(offset)
        else:
            await self._cut_at(offset)

    async def _carried_out(self, cut: Callable[[], Awaitable[None]]) -> None:
        """A cut goes on when who waits for it is cancelled: with its files cut and its memory not, a log would leave producers
        and epochs of what is gone to the next start. Raises KafkaError."""
        tasks = self._environment.tasks
        await self.when_cut()
        if tasks.is_closed:
            raise self._closed()
        self._begin_truncation()
        task = tasks.spawn(self._answered(cut), name=f"cut {self._name}")
        task.add_done_callback(lambda _: self._end_truncation())
        error = await asyncio.shield(task)
        if error is not None:
            raise error

    async def _answered(self, cut: Callable[[], Awaitable[None]]) -> KafkaError | None:
        """A refusal is an answer, not a task's failure."""
        try:
            await self._writer.settle()
            refusal = self._writer.failure or self._writer.halted
            if refusal is not None:
                return refusal.again()
            with self._failing_for_good():
                await cut()
                await self._checkpoint_if_fallen()
        except KafkaError as error:
            return error
        return None

    async def _checkpoint_if_fallen(self) -> None:
        """A start after a crash walks the log from its recovery point on only, so what is appended next must not lie below;
        nor may it lie below the first dirty offset. What counts is the point at the cut: a flush may have moved it until then.
        Raises OSError."""
        if self._writer.owes_checkpoint:
            refusal = await self._environment.checkpoint_recovery_points(self.directory)
            if refusal is not None:
                raise refusal
            self._writer.owes_checkpoint = False

    async def _cut_at(self, offset: int) -> None:
        """Raises OSError."""
        records_end = await cut_segments(
            self._segments,
            self._reader,
            self._environment,
            offset=offset,
            log_start_offset=lambda: self.log_start_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            on_cut=self._end_at,
        )
        if records_end is None:
            await self._begin_anew(offset)
            return
        if self._segments.active.end_bytes and records_end < offset:
            self._note_gap()
        self._writer.has_written = True
        self._epoch_file.cut(offset)
        await self._recall_producers_at(offset)

    def _note_gap(self) -> None:
        """The log was cut within a gap, and goes on behind it: in another segment perhaps. To a start the log's name in the
        checkpoint alone tells that this is no tear."""
        if self.first_dirty_offset is None:
            self.first_dirty_offset = self.log_start_offset
            self._writer.owes_checkpoint = True

    async def _recall_producers_at(self, offset: int) -> None:
        """The log was cut at `offset`. One that has not had producers since its start has none then, as in Kafka: a clean stop
        leaves a snapshot that says so, and its records need not be walked. Raises OSError."""
        if self._producers is not NO_PRODUCERS:
            self._knows_producers = False  # should a stop not wait for this, the next start has to ask the files again
            producers = await producers_of_cut(self._segments, self._environment, offset=offset)
            self._knows_producers = True
            producers.remember(self._producers)
            self._producers = producers if len(producers) else NO_PRODUCERS
        self._lacks_snapshot = len(self._producers) > 0

    async def go_on(self) -> None:
        """Take records again after the disk had no room: what refused writes have left behind the log's end is cut off,
        and producers are as the log says. Where there is no room still, the log stays halted.

        Nothing is done behind a close that has begun: the folder may have another name when that is through. A close that
        begins later waits.
        """
        if not self.is_halted or self._is_closing or self._truncation is not None:
            return
        self._begin_truncation()
        try:
            await self._environment.queue.drain()  # of writes behind the refused one, which are none any more
            await self._writer.settle()
            if self._writer.failure is None:
                await self._repair_halted()
        except KafkaError as error:
            logger.info("log remains halted: topic=%s partition=%d error=%s", self.topic, self.partition, error)
        finally:
            self._end_truncation()

    async def _repair_halted(self) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        self._writer.take_jobs_again()
        self._epoch_file.distrust()
        with self._failing_for_good():
            await drop_unmade_segments(self._segments, self._environment)
            await self._cut_at(self.log_end_offset)
            await self._writer.settle()
            await self._checkpoint_if_fallen()
        if self._writer.is_sound:
            self._writer.go_on(self._environment.space.refusal(self.topic, is_own=False))
            logger.info(
                "log accepts records again: topic=%s partition=%d end_offset=%d",
                self.topic,
                self.partition,
                self.log_end_offset,
            )

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and begin again at `offset`. No appends may run meanwhile."""
        await self._carried_out(partial(self._begin_anew, offset))

    async def _begin_anew(self, offset: int) -> None:
        try:
            await restart_segments(self._segments, self._environment, offset=offset, on_cut=self._begin_again_at)
        finally:
            self._epoch_file.begin_anew()  # behind what it is about: a crash in between finds the old ones in both

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
        self.lowest_cut = offset if self.lowest_cut is None else min(self.lowest_cut, offset)
        self.next_offset = offset
        self._has_checked_end = True  # a cut may fall among offsets that no batch has
        self.log_start_offset = min(self.log_start_offset, offset)  # the cut may fall among deleted records
        self.high_watermark = min(self.high_watermark, offset)
        if self.first_dirty_offset is not None and offset < self.first_dirty_offset:
            self.first_dirty_offset = offset
            self._writer.owes_checkpoint = True  # or a start would take what comes next for clean
        self._reader.forget_places()

    def _begin_again_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self._writer.begin_again_at(offset)
        self._note_end(offset)
        self.lowest_cut = 0
        self._producers, self._knows_producers = NO_PRODUCERS, True
        self.high_watermark = offset
