"""Finished segments on their way to the disk, and the recovery point behind them.

    rolled, or found by a start --fsync beside the appends to the next one--> on the disk --in order--> recovery point

Rules: methods run on the event loop; files are synced in reader threads. A roll takes everything along that is finished
behind the recovery point and not on its way: what a start has recovered is rolled by nobody.
Invariant: the recovery point passes a segment only when that one, its indexes, the snapshot at its end and all segments before
it are on the disk.
Source: Kafka UnifiedLog.roll (flushUptoOffsetExclusive).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Protocol

from protocol.errors import KafkaError
from storage.log.log_environment import LogEnvironment
from storage.segments.segment import Segment
from storage.segments.segment_files import LOG_SUFFIX, sync_segment
from storage.segments.segment_list import Segments


class FlushOwner(Protocol):
    """The log's writer."""

    failure: KafkaError | None
    recovery_point: int

    def fail(self, cause: OSError) -> None:
        """Nothing of the log can be trusted any more."""


class _Finished:
    """A segment that ends at `end_offset`. `is_cut`: it does not end there any more."""

    __slots__ = ("base_offset", "end_offset", "is_cut", "is_flushed")

    def __init__(self, base_offset: int, end_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.is_flushed = False
        self.is_cut = False


class FinishedSegments:
    """Of one log."""

    __slots__ = ("_environment", "_on_their_way", "_owner", "_segments")

    def __init__(self, owner: FlushOwner, segments: Segments, environment: LogEnvironment) -> None:
        self._owner = owner
        self._segments = segments
        self._environment = environment
        # To the disk, or there before an earlier one is.
        self._on_their_way: list[_Finished] = []

    def flush(self, rolled: Segment, end_offset: int) -> None:
        """`rolled` was finished at `end_offset`."""
        tasks = self._environment.tasks
        if not tasks.is_closed:
            tasks.spawn(self._flush(rolled, end_offset), name=f"flush {rolled.path(LOG_SUFFIX)}")

    async def _flush(self, rolled: Segment, end_offset: int) -> None:
        owner = self._owner
        if rolled.is_gone or owner.failure is not None:
            return
        known = {each.base_offset for each in self._on_their_way}
        finished = [
            (segment, _Finished(segment.base_offset, following.base_offset))
            for segment, following in pairwise(self._segments.starting_from(owner.recovery_point))
            if segment.base_offset < rolled.base_offset and segment.base_offset not in known
        ]
        finished.append((rolled, _Finished(rolled.base_offset, end_offset)))
        self._on_their_way += [each for _, each in finished]
        for segment, each in finished:
            await self._flush_one(segment, each)

    async def _flush_one(self, segment: Segment, finished: _Finished) -> None:
        sync = partial(
            sync_segment, self._environment.filesystem, segment.directory, segment.base_offset, segment.file,
            finished.end_offset,
        )  # fmt: skip
        try:
            await self._environment.open_segments.run_pinned(segment, sync)
        except OSError as error:
            self._on_their_way = [each for each in self._on_their_way if each is not finished]
            # A cut takes the snapshot at the segment's former end, others set its files aside.
            is_cut_off = isinstance(error, FileNotFoundError) and finished.is_cut
            if not (segment.is_gone or is_cut_off):
                self._owner.fail(error)
            return
        finished.is_flushed = True
        self._move_over_flushed()

    def _move_over_flushed(self) -> None:
        """They may be on the disk in another order than their own: the recovery point waits for the first."""
        owner = self._owner
        left: list[_Finished] = []
        for each in sorted(self._on_their_way, key=lambda finished: finished.base_offset):
            if each.is_flushed and each.base_offset <= owner.recovery_point:
                owner.recovery_point = max(owner.recovery_point, each.end_offset)
            else:
                left.append(each)
        self._on_their_way = left

    def leave(self, is_cut: Callable[[int], bool]) -> None:
        """The log was cut, and with it the segments whose end it is told: that these were flushed says nothing any more."""
        for each in self._on_their_way:
            each.is_cut = is_cut(each.end_offset)
        self._on_their_way = [each for each in self._on_their_way if not each.is_cut]
