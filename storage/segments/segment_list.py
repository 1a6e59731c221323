"""The segments of one log, by base offset: which of them holds an offset, and which follows which.

Rules: on the event loop, no IO. The list is exchanged as a whole, so whoever goes through it sees one state of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from storage.segments.segment import Segment


class Segments:
    """A log's segments by base offset; the last one is active. Never empty once loaded."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._take(segments)

    def _take(self, segments: list[Segment]) -> None:
        # Tuples: most logs have one segment, for good.
        self._segments = tuple(segments)
        self._base_offsets = tuple(segment.base_offset for segment in segments)
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.written_bytes for segment in self._segments)

    def append(self, segment: Segment) -> None:
        assert segment.base_offset > self._base_offsets[-1]
        self._segments = (*self._segments, segment)
        self._base_offsets = (*self._base_offsets, segment.base_offset)
        self.active = segment

    def at_or_before(self, offset: int) -> Segment:
        """The last segment whose base offset is at most `offset`; the first one when none is."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        at = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def starting_from(self, offset: int) -> list[Segment]:
        return list(self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :])

    def has_aborted_from(self, offset: int) -> bool:
        """Whether a transaction index may know of aborted transactions at or behind `offset`."""
        first = max(bisect_right(self._base_offsets, offset) - 1, 0)
        return any(self._segments[at].txn_index is not None for at in range(first, len(self._segments)))

    def replace(self, segments: list[Segment]) -> list[Segment]:
        """Take `segments` instead; returns those that were removed."""
        kept = set(segments)
        removed = [segment for segment in self._segments if segment not in kept]
        self._take(segments)
        return removed
