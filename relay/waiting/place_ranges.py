"""Which runs may have a place: the ranges of places that runs span in one tier. No IO.

Ranges of two runs do not overlap as long as offsets only grow, so that one run is looked at for a place. They do when a bucket
topic was deleted and made again: then every run is found whose range has the place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

from relay.waiting.run import WaitingRun


class PlaceRanges:
    def __init__(self) -> None:
        self._leasts: list[tuple[int, int]] = []
        """The least place and the slot of each run, in order."""
        self._greatest: list[int] = []
        self._reach: list[int] = []
        """The greatest place of this run and of all before it."""
        self._runs: list[WaitingRun] = []

    def add(self, run: WaitingRun, least: int, greatest: int) -> None:
        key = (least, run.slot)
        at = bisect_left(self._leasts, key)
        self._leasts.insert(at, key)
        self._greatest.insert(at, greatest)
        self._runs.insert(at, run)
        self._reach.insert(at, greatest)
        self._update_reach(at)

    def remove(self, run: WaitingRun, least: int) -> None:
        at = bisect_left(self._leasts, (least, run.slot))
        for column in (self._leasts, self._greatest, self._runs, self._reach):
            del column[at]
        self._update_reach(at)

    def _update_reach(self, at: int) -> None:
        before = self._reach[at - 1] if at else -1
        self._reach[at:] = [*accumulate(self._greatest[at:], max, initial=before)][1:]

    def runs_with(self, place: int) -> Iterator[WaitingRun]:
        at = bisect_right(self._leasts, (place, 1 << 62)) - 1
        while at >= 0 and self._reach[at] >= place:
            yield self._runs[at]
            at -= 1

    def least(self) -> int | None:
        """Return the least place of all runs."""
        return self._leasts[0][0] if self._leasts else None
