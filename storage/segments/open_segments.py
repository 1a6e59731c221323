"""Bounds the number of open files of old segments: closes the least recently read ones.

Rules: called on the event loop; closing runs in a reader thread. Active segments are not counted: their log holds them.
Invariant: a file that a thread is using, or a range in flight (`Segment.pins`), is closed only when that is through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runtime.disk.disk_queue import Readers
from storage.segments.segment import Segment

MAX_OPEN_SEGMENTS = 1000


class OpenSegments:
    """The open old segments of all logs of a broker, least recently read first."""

    __slots__ = ("_limit", "_readers", "_segments")

    def __init__(self, readers: Readers, limit: int = MAX_OPEN_SEGMENTS) -> None:
        self._readers = readers
        self._limit = limit
        self._segments: dict[Segment, None] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def touch(self, segment: Segment) -> None:
        """Note that `segment` is being read, or was just opened or rolled."""
        segments = self._segments
        segments.pop(segment, None)
        segments[segment] = None
        if len(segments) > self._limit:
            self._close_oldest()

    def _close_oldest(self) -> None:
        for segment in self._segments:
            if not segment.pins:
                self.close(segment)
                return

    def close(self, segment: Segment) -> None:
        """Close the segment's file, now or when its last reading thread has finished."""
        self._segments.pop(segment, None)
        if segment.pins:
            segment.close_when_unpinned = True
            return
        segment.close_when_unpinned = False
        file = segment.release()
        if file is not None:
            self._readers.run(file.close)

    def remove(self, segment: Segment) -> None:
        """Drop a segment that was removed from its log."""
        segment.is_removed = True
        self.close(segment)

    def forget(self, segment: Segment) -> None:
        """Drop a segment that is active again: its log keeps it open."""
        self._segments.pop(segment, None)
        segment.close_when_unpinned = False

    def pin(self, segments: Iterable[Segment]) -> None:
        """Keep the files of these segments open until `unpin`, because a thread uses them."""
        for segment in segments:
            segment.pins += 1

    def unpin(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            segment.pins -= 1
            self.unpinned(segment)

    async def run_pinned(self, segment: Segment, work: Callable[[], None]) -> None:
        """Run `work`, which uses the segment's file, in a reader thread. Raises OSError."""
        self.pin((segment,))
        try:
            await self._readers.run(work)
        finally:
            self.unpin((segment,))

    def unpinned(self, segment: Segment) -> None:
        if segment.close_when_unpinned and not segment.pins:
            self.close(segment)
