"""Flushes finished segments, and moves the recovery point over them.

    rolled, or found by a start --fsync beside the appends to the next one--> on the disk --in order--> recovery point

Rules: methods run on the event loop; files are synced in reader threads. A roll also flushes every other finished segment above
the recovery point that is not being flushed yet, because segments recovered at start are never rolled.
Invariant: the recovery point passes a segment only when that one, its indexes, the snapshot at its end and all segments before
it are on the disk.
Source: Kafka UnifiedLog.roll (flushUptoOffsetExclusive).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from storage.disk_use import TimedJob
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.writing.write_refusals import WriteRefusals
from storage.segments.segment import Segment
from storage.segments.segment_files import LOG_SUFFIX, sync_segment
from storage.segments.segment_list import Segments


class _Finished:
    """A segment that was finished at `end_offset`. `is_truncated`: a truncation has changed its end since."""

    __slots__ = ("base_offset", "end_offset", "is_flushed", "is_truncated")

    def __init__(self, base_offset: int, end_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.is_flushed = False
        self.is_truncated = False


class FinishedSegments:
    """Tracks the finished segments of one log until they are on the disk."""

    __slots__ = ("_environment", "_flushing", "_offsets", "_refusals", "_segments")

    def __init__(
        self, offsets: LogOffsets, segments: Segments, environment: LogEnvironment, refusals: WriteRefusals
    ) -> None:
        self._offsets = offsets
        self._refusals = refusals
        self._segments = segments
        self._environment = environment
        # Being flushed, or flushed before an earlier one is.
        self._flushing: list[_Finished] = []

    def flush(self, rolled: Segment, end_offset: int) -> None:
        """Flush `rolled`, which was finished at `end_offset`, in a reader thread."""
        tasks = self._environment.tasks
        if not tasks.is_closed:
            tasks.spawn(self._flush(rolled, end_offset), name=f"flush {rolled.path(LOG_SUFFIX)}")

    async def _flush(self, rolled: Segment, end_offset: int) -> None:
        if rolled.is_removed or self._refusals.failure is not None:
            return
        known = {each.base_offset for each in self._flushing}
        finished = [
            (segment, _Finished(segment.base_offset, following.base_offset))
            for segment, following in pairwise(self._segments.starting_from(self._offsets.recovery_point))
            if segment.base_offset < rolled.base_offset and segment.base_offset not in known
        ]
        finished.append((rolled, _Finished(rolled.base_offset, end_offset)))
        self._flushing += [each for _, each in finished]
        for segment, each in finished:
            await self._flush_one(segment, each)

    async def _flush_one(self, segment: Segment, finished: _Finished) -> None:
        sync = partial(
            sync_segment, self._environment.filesystem, segment.directory, segment.base_offset, segment.file,
            finished.end_offset,
        )  # fmt: skip
        timed = TimedJob(sync, self._environment.clock)
        try:
            await self._environment.open_segments.run_pinned(segment, timed)
        except OSError as error:
            self._flushing = [each for each in self._flushing if each is not finished]
            # A truncation removes the snapshot at the segment's former end; retention and the cleaner set its files aside.
            is_cut_off = isinstance(error, FileNotFoundError) and finished.is_truncated
            if not (segment.is_removed or is_cut_off):
                self._refusals.fail(error)
            return
        self._environment.disk_use.flushes.add(timed.took_ns)
        finished.is_flushed = True
        self._move_over_flushed()

    def _move_over_flushed(self) -> None:
        """Move the recovery point over the flushed segments in front. Flushes end in any order, so the point waits for the
        first."""
        offsets = self._offsets
        left: list[_Finished] = []
        for each in sorted(self._flushing, key=lambda finished: finished.base_offset):
            if each.is_flushed and each.base_offset <= offsets.recovery_point:
                offsets.recovery_point = max(offsets.recovery_point, each.end_offset)
            else:
                left.append(each)
        self._flushing = left

    def drop_truncated(self, is_truncated: Callable[[int], bool]) -> None:
        """Drop the segments whose end offset `is_truncated` accepts: after a truncation their flush says nothing about the
        file's content."""
        for each in self._flushing:
            each.is_truncated = is_truncated(each.end_offset)
        self._flushing = [each for each in self._flushing if not each.is_truncated]
