"""The contents of waiting records that are due soon, by their places. Pure.

Rules: bounded by bytes. What does not fit is read again when there is room; the records that are due first have precedence by
the order in which they are asked for. A place whose record is gone is remembered as such until it is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.producing.core import size_of

if TYPE_CHECKING:
    from protocol.records.record import Record
    from protocol.topic_partition import TopicPartition

MAX_BYTES: Final = 64 << 20
SHARE: Final = 0.5
OVERHEAD_BYTES: Final = 300
"""About what a record takes in memory beside its bytes."""
GONE: Final = "gone"
"""Stands for a record that is not where it was put: its topic was deleted, or its retention was too short."""

Where = tuple["TopicPartition", int]
"""A partition, and an offset there."""


class Contents:
    """The contents of the records of one process, and which of them are to be read."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._used_by_source: dict[TopicPartition, int] = {}
        self._missing: dict[TopicPartition, dict[int, Where]] = {}
        self._by_source: dict[TopicPartition, dict[int, tuple[Record | str, int]]] = {}  # with the size

    def has_room_for(self, source: TopicPartition) -> bool:
        """Whether more of a source partition may be kept; none has all the room to itself."""
        if self._used_bytes >= self._max_bytes:
            return False
        return self._used_by_source.get(source, 0) < self._max_bytes * SHARE

    def add(self, source: TopicPartition, place: int, record: Record | None) -> None:
        """Keep the record of a place, None for one that is gone."""
        known = self._by_source.setdefault(source, {})
        if place in known:
            return
        content, size_bytes = (GONE, OVERHEAD_BYTES) if record is None else (record, OVERHEAD_BYTES + size_of(record))
        known[place] = content, size_bytes
        self._use(source, size_bytes)

    def ask(self, source: TopicPartition, place: int, where: Where) -> None:
        """Remember that the content of a place is to be read at `where`, unless it is here."""
        if self.get(source, place) is None:
            self._missing.setdefault(source, {})[place] = where

    def missing_count(self, source: TopicPartition) -> int:
        """Return how many places of a source partition are to be read."""
        return len(self._missing.get(source, ()))

    def missing(self) -> dict[Where, tuple[TopicPartition, int]]:
        """Return where is to be read, each with its source partition and place."""
        return {where: (source, place) for source, places in self._missing.items() for place, where in places.items()}

    def found(self, source: TopicPartition, place: int, record: Record | None) -> None:
        """Keep what was read, if it is still asked for."""
        if self._missing.get(source, {}).pop(place, None) is not None:
            self.add(source, place, record)

    def get(self, source: TopicPartition, place: int) -> Record | str | None:
        """Return the record of a place, GONE, or None when it is not here."""
        known = self._by_source.get(source)
        found = None if known is None else known.get(place)
        return None if found is None else found[0]

    def drop(self, source: TopicPartition, place: int) -> None:
        """Forget a place that is not asked for any more."""
        self._missing.get(source, {}).pop(place, None)
        found = self._by_source.get(source, {}).pop(place, None)
        if found is not None:
            self._use(source, -found[1])

    def drop_source(self, source: TopicPartition) -> None:
        """Forget all places of a source partition."""
        self._missing.pop(source, None)
        self._by_source.pop(source, None)
        self._used_bytes -= self._used_by_source.pop(source, 0)

    def _use(self, source: TopicPartition, size_bytes: int) -> None:
        self._used_bytes += size_bytes
        self._used_by_source[source] = self._used_by_source.get(source, 0) + size_bytes
