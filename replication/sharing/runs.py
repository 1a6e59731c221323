"""What is in flight of one share partition: fetched batches, each of runs of offsets that are in one state. Pure.

    batches   0 ------------ 99   100 -------- 149          163 ---- 199
    runs      [acked][acquired]   [acquired      ]          [available ]

A batch is what one acquisition added. Its bounds stay as long as it is in flight, because acquired rows and errors follow them;
`is_split`: somebody has made a difference between its records, which are treated one by one since.

Rules: the cost of an operation grows with the runs that it touches, not with the offsets. A run whose change waits to be
stored (`pending`) is changed by nobody else.
Invariants: batches are sorted and do not overlap; the runs of a batch are sorted, have no gap in between and end with the
batch. They begin with the batch, or where the start offset of the partition cuts it.
Source: KIP-932; Kafka InFlightBatch and InFlightState, which have one state an offset once a batch is split.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from protocol.share_states import DeliveryState

_first = attrgetter("first")

NO_MEMBER: Final = ""


class OffsetRun:
    """Offsets `first` to `last`, both included. `member` and `lock_until_ms` are of acquired ones, or of those that were
    acquired until the change `pending`, which may be taken back."""

    __slots__ = ("delivery_count", "first", "last", "lock_until_ms", "member", "pending", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: DeliveryState,
        delivery_count: int,
        member: str = NO_MEMBER,
        lock_until_ms: int = 0,
        pending: object | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member = member
        self.lock_until_ms = lock_until_ms
        self.pending = pending

    def __repr__(self) -> str:
        return f"<OffsetRun {self.first}-{self.last} {self.state.name} {self.delivery_count} {self.member}>"

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        """Whether it can be acquired."""
        return self.state is DeliveryState.AVAILABLE and self.pending is None

    @property
    def is_done(self) -> bool:
        """Whether it is never delivered again, apart from a change that is taken back."""
        return self.state is DeliveryState.ACKNOWLEDGED or self.state is DeliveryState.ARCHIVED

    def become(self, state: DeliveryState) -> None:
        """Take a state other than acquired for good."""
        self.state = state
        self.member = NO_MEMBER
        self.lock_until_ms = 0
        self.pending = None

    def cut_off(self, first: int) -> OffsetRun:
        """End before `first`; returns the rest."""
        rest = OffsetRun(
            first, self.last, self.state, self.delivery_count, self.member, self.lock_until_ms, self.pending
        )
        self.last = first - 1
        return rest

    def is_like(self, other: OffsetRun) -> bool:
        """Whether nothing distinguishes the two besides their offsets."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.pending is other.pending
            and self.lock_until_ms == other.lock_until_ms
            and self.member == other.member
        )


class InFlightBatch:
    """What one acquisition has added: offsets `first` to `last`, both included."""

    __slots__ = ("first", "is_split", "last", "runs")

    def __init__(self, first: int, last: int, runs: list[OffsetRun], *, is_split: bool = False) -> None:
        self.first = first
        self.last = last
        self.runs = runs
        self.is_split = is_split

    def __repr__(self) -> str:
        return f"<InFlightBatch {self.first}-{self.last} {self.runs}>"

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def is_within(self, first: int, last: int) -> bool:
        return self.first >= first and self.last <= last

    def index(self, offset: int) -> int:
        """Return the index of the run with this offset, or of the first run after it."""
        return max(0, bisect_right(self.runs, offset, key=_first) - 1)

    def overlapping(self, first: int, last: int) -> list[OffsetRun]:
        """Return the runs that have some of these offsets."""
        runs = self.runs
        if len(runs) == 1:
            return runs if runs[0].first <= last and runs[0].last >= first else []
        return [run for run in runs[self.index(first) :] if run.first <= last and run.last >= first]

    def cut(self, first: int, last: int) -> list[OffsetRun]:
        """Divide runs such that none goes beyond these bounds on one side; returns those within."""
        runs = self.runs
        if len(runs) == 1 and runs[0].first >= first and runs[0].last <= last:
            return runs
        if first > self.last or last < runs[0].first:
            return []
        begin = self.index(first)
        if runs[begin].first < first:
            runs.insert(begin + 1, runs[begin].cut_off(first))
            begin += 1
        end = begin if runs[begin].last >= last else self.index(last)
        if runs[end].last > last:
            runs.insert(end + 1, runs[end].cut_off(last + 1))
        return runs[begin : end + 1]

    def join(self) -> None:
        """Join neighbours that nothing distinguishes."""
        runs = self.runs
        if len(runs) == 1:
            return
        joined = [runs[0]]
        for run in runs[1:]:
            if joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined

    def drop_before(self, offset: int) -> list[OffsetRun]:
        """Remove and return the runs before an offset of this batch."""
        dropped = self.cut(self.runs[0].first, offset - 1) if self.runs[0].first < offset else []
        self.runs = self.runs[len(dropped) :]
        return dropped


class InFlight:
    """The batches in flight, sorted."""

    __slots__ = ("_firsts", "batches")

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self.batches)

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch, which overlaps with no other."""
        if not self.batches or batch.first > self._firsts[-1]:
            self.batches.append(batch)
            self._firsts.append(batch.first)
            return
        index = bisect_left(self._firsts, batch.first)
        self.batches.insert(index, batch)
        self._firsts.insert(index, batch.first)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset."""
        index = bisect_right(self._firsts, offset)
        return self.batches[index - 1] if index else None

    def beginning_within(self, first: int, last: int) -> Sequence[InFlightBatch]:
        """Return the batches whose first offset is within these bounds."""
        return self.batches[bisect_left(self._firsts, first) : bisect_right(self._firsts, last)]

    def from_floor(self, first: int, last: int) -> Sequence[InFlightBatch]:
        """Return the last batch that begins at or before `first`, and those that begin after it and not after `last`."""
        begin = max(0, bisect_right(self._firsts, first) - 1)
        return self.batches[begin : bisect_right(self._firsts, last)]

    def drop_first(self, count: int) -> list[InFlightBatch]:
        """Remove and return the first batches."""
        dropped = self.batches[:count]
        del self.batches[:count]
        del self._firsts[:count]
        return dropped
