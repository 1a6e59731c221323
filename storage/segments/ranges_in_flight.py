"""The ranges of segments that responses and connections have: bytes that leave from the page cache.

A range pins its segment, so the file stays open while the segment is closed, deleted, cleaned or moved: its content does not
change by any of these. Only a truncation of the end changes bytes that a socket may still refer to.

Rules: runs on the event loop. One for all logs: a log that was closed and opened again knows what is sent of its files. A range
is known until it is released, not until it is dropped: that may happen in the thread that has sent it.
Invariant: when `revoke_behind` returns, no thread sends bytes of the file at or behind the position, and the connections that
did are closed.
Source: no Kafka class; Apache Kafka's file channels do not know who sends from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from weakref import ref

from runtime.network.file_range import FileRange
from storage.segments.open_segments import OpenSegments
from storage.segments.segment import Segment


class RangesInFlight:
    """Those of a broker. A range that is dropped unsent leaves by itself."""

    __slots__ = ("_begun_count", "_open_segments", "_ranges")

    def __init__(self, open_segments: OpenSegments) -> None:
        self._open_segments = open_segments
        self._begun_count = 0
        self._ranges: dict[int, ref[FileRange]] = {}

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[FileRange]:
        for begun in list(self._ranges.values()):
            found = begun()
            if found is not None:
                yield found

    def begin(self, segment: Segment, position: int, length: int) -> FileRange:
        """Return a range of an open segment, which stays open until it is released."""
        assert segment.file is not None
        self._open_segments.pin((segment,))
        self._begun_count = number = self._begun_count + 1
        begun = FileRange(segment.file, position, length, partial(self._end, segment, number))
        self._ranges[number] = ref(begun)
        return begun

    def _end(self, segment: Segment, number: int) -> None:
        del self._ranges[number]
        self._open_segments.unpin((segment,))

    async def revoke_behind(self, segment: Segment, position: int) -> None:
        """Have nothing sent of what an open segment has at or behind `position`: its file is about to be shortened."""
        assert segment.file is not None
        loop, identity = asyncio.get_running_loop(), segment.file.identity() if self._ranges else None
        leaving: list[asyncio.Future[None]] = []
        for each in self:
            if each.position + each.length > position and each.file.identity() == identity:
                left: asyncio.Future[None] = loop.create_future()
                if each.revoke(partial(_resolve, left)):
                    leaving.append(left)
        for left in leaving:
            await left


def _resolve(left: asyncio.Future[None]) -> None:
    if not left.done():  # the truncation was cancelled: the broker stops
        left.set_result(None)
