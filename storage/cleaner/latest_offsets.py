"""Which records of the dirty part of a log are the latest of their keys: the offset map, by offset. Pure.

The copying of the dirty part needs no keys with it: most batches of a log that is cleaned have few latest records, or none.

Rules: pure. One byte for each offset of the dirty part.
Invariant: it answers only for batches without gaps, whose records have the offset deltas 0, 1, 2 and so on: a record is
known by its number in the batch.
Source: ours; Kafka looks every key up a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.records.batch import BatchHeader


class LatestOffsets:
    """The offsets in [start_offset, end_offset) of latest records. Raises MemoryError."""

    __slots__ = ("_end_offset", "_is_latest", "_start_offset")

    def __init__(self, start_offset: int, end_offset: int) -> None:
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._is_latest = bytearray(end_offset - start_offset)

    def add(self, offsets: Iterable[int]) -> None:
        """Mark latest records."""
        is_latest, start_offset = self._is_latest, self._start_offset
        for offset in offsets:
            is_latest[offset - start_offset] = 1

    def know(self, header: BatchHeader) -> bool:
        """Whether `numbers_in` has an answer for this batch."""
        return (
            header.base_offset >= self._start_offset
            and header.last_offset < self._end_offset
            and header.last_offset_delta + 1 == header.records_count
        )

    def numbers_in(self, header: BatchHeader) -> list[int]:
        """Return the numbers of the latest records in a batch that this knows, rising."""
        is_latest = self._is_latest
        start = header.base_offset - self._start_offset
        end = start + header.records_count
        numbers = []
        at = is_latest.find(1, start, end)
        while at >= 0:
            numbers.append(at - start)
            at = is_latest.find(1, at + 1, end)
        return numbers
