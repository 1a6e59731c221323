"""Entries that were taken in together, in columns: some 20 bytes each. No IO.

Rules: rows have the order of due times, those of one millisecond the order in which they were taken in. A row waits until it is
done. It stays where it is; but rows at the beginning, which are done first, are given up at times.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import gt

from relay.waiting.columns import DueColumn
from relay.waiting.entries import NO_ID, WaitingEntry
from relay.waiting.index_records import TakenRun


class WaitingRun:
    """`slot`: its number among the runs of an index. `done_by`: the sequences of the done records that name rows of it.
    `ids`: those of rows that wait.
    """

    __slots__ = (
        "_by_place",
        "_waits",
        "base",
        "count",
        "done_by",
        "dues",
        "first",
        "ids",
        "places",
        "ranges",
        "sequence",
        "size",
        "slot",
    )

    def __init__(self, sequence: int, slot: int, taken: TakenRun) -> None:
        self.sequence = sequence
        self.slot = slot
        self.dues, self.places, self.ids = taken
        self.done_by: array[int] = array("q")
        self.count = len(self.dues)
        self.size = self.count
        """How many rows its record has."""
        self.base = 0
        """How many rows at its beginning are not kept any more. Rows are counted behind them."""
        self.first = 0
        """The first row that waits."""
        self._waits = bytearray(b"\1") * self.count
        self.ranges = self.places.ranges()
        """For each tier that occurs its number, the least and the greatest place in it."""
        self._by_place: Sequence[int] | None = None
        """Rows in the order of their places; None until another row than the first is looked for."""

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def first_due_ms(self) -> int:
        """When the first row that waits is due."""
        return self.dues[self.first]

    @property
    def last_due_ms(self) -> int:
        """When the last row is due, whether it waits or not."""
        return self.dues[-1]

    def row_of(self, place: int) -> int:
        """Return the row with this place; -1 when there is none.

        What is delivered is the first row that waits as a rule, so that one is looked at first.
        """
        codes = self.places.codes
        code = self.places.code_of(place)
        if codes[self.first] == code:
            return self.first
        if self._by_place is None:
            is_in_order = not any(map(gt, codes, codes[1:]))
            self._by_place = range(len(codes)) if is_in_order else _sorted_rows(codes)
        at = bisect_left(self._by_place, code, key=codes.__getitem__)
        if at == len(codes):
            return -1
        row = self._by_place[at]
        return row if codes[row] == code else -1

    def waits(self, row: int) -> bool:
        return bool(self._waits[row])

    def count_before(self, end: int) -> int:
        """Return how many rows before this one wait."""
        return self._waits.count(1, 0, end)

    def finish(self, row: int) -> bool:
        """Let a row wait no longer. Returns whether it did until now."""
        if not self._waits[row]:
            return False
        self._waits[row] = 0
        if self.ids is not None:
            self.ids[row] = NO_ID
        self.count -= 1
        if row == self.first:
            self.first = self._waits.find(1, row)
        return True

    def trim(self) -> None:
        """Keep nothing of the rows before the first that waits."""
        first = self.first
        self.dues = DueColumn(self.dues.least, self.dues.distances[first:])
        self.places.drop_first(first)
        if self.ids is not None:
            self.ids = self.ids[first:]
        self._waits = self._waits[first:]
        self._by_place = None
        self.base += first
        self.first = 0

    def entry(self, row: int) -> WaitingEntry:
        return WaitingEntry(self.dues[row], self.places[row], NO_ID if self.ids is None else self.ids[row])

    def waiting_rows(self, start: int, end: int) -> Iterator[int]:
        """Yield the rows that wait, from `start` on and before `end`."""
        find = self._waits.find
        row = find(1, start, end)
        while row >= 0:
            yield row
            row = find(1, row + 1, end)

    def end_of(self, until_ms: int) -> int:
        """Return the first row that is due after `until_ms`."""
        return bisect_right(self.dues.distances, until_ms - self.dues.least)

    def start_of(self, from_ms: int) -> int:
        """Return the first row that is due at `from_ms` or later."""
        return bisect_left(self.dues.distances, from_ms - self.dues.least)

    def columns(self, start: int, end: int) -> tuple[list[int], list[int], list[int]]:
        """Return due times, places and ids of the rows that wait, from `start` on and before `end`."""
        waits = self._waits[start:end]
        least = self.dues.least
        dues = [least + distance for distance in compress(self.dues.distances[start:end], waits)]
        places = self.places.decoded(compress(self.places.codes[start:end], waits))
        return dues, places, [NO_ID] * len(dues) if self.ids is None else list(compress(self.ids[start:end], waits))


def _sorted_rows(codes: array[int]) -> array[int]:
    return array("H", sorted(range(len(codes)), key=codes.__getitem__))
