"""Lines of a plot, out of the history: of a topic, of a group, and of all topics that a user may see together. Pure, in slices.

Rules: sums over many topics are kept until the next round, for a few sets of topics: many readers look at the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from web.history.history import Measure
from web.history.series import NAN, Values, added

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from runtime.slices import Slices
    from web.history.history import History

SUMS_MAX: Final = 16


class Line(NamedTuple):
    """The values of a plot's rounds. `name` is what has them: a topic, a broker's request, or "" for the whole of what was
    asked for."""

    measure: Measure
    name: str
    values: Values


class Plot(NamedTuple):
    """`times_ms` are those of the rounds, the oldest first, on the clock that does not go back."""

    times_ms: list[int]
    lines: list[Line]


class HistoryReading:
    """Of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._sums: dict[tuple[Measure, frozenset[str]], Values] = {}
        self._sums_round = 0

    def topic(self, topic: str, measures: Iterable[Measure]) -> Plot:
        """Return what is known of a topic."""
        times_ms = self._history.rounds.times_ms()
        lines = [
            Line(measure, "", series.values(len(times_ms)))
            for measure in measures
            for series in self._history.parts(measure, topic).values()
        ]
        return Plot(times_ms, lines)

    def group(self, group: str, topics: Collection[str]) -> Plot:
        """Return the lag of a group, the sum first, then by topic."""
        times_ms = self._history.rounds.times_ms()
        parts = sorted(self._history.parts(Measure.LAG, group).items())
        lines = [Line(Measure.LAG, topic, each.values(len(times_ms))) for topic, each in parts if topic in topics]
        total = [NAN] * len(times_ms)
        for line in lines:
            total = added(total, line.values)
        return Plot(times_ms, [Line(Measure.LAG, "", total), *lines] if lines else [])

    def latencies(self) -> Plot:
        """Return the response times that brokers tell of themselves."""
        times_ms = self._history.rounds.times_ms()
        lines = [
            Line(Measure.LATENCY, f"{broker} {request}", series.values(len(times_ms)))
            for broker in sorted(self._history.subjects(Measure.LATENCY))
            for request, series in sorted(self._history.parts(Measure.LATENCY, broker).items())
        ]
        return Plot(times_ms, lines)

    async def sums(self, topics: frozenset[str], measures: Sequence[Measure], slices: Slices) -> Plot:
        """Return the sums over these topics."""
        while True:
            number, times_ms = self._history.rounds.count, self._history.rounds.times_ms()
            found = [Line(each, "", await self._sum(each, topics, len(times_ms), slices)) for each in measures]
            if self._history.rounds.count == number:
                return Plot(times_ms, found)
            # A round has ended meanwhile: what was added belongs to different times.

    async def _sum(self, measure: Measure, topics: frozenset[str], count: int, slices: Slices) -> Values:
        number = self._history.rounds.count
        if self._sums_round != number:
            self._sums.clear()
            self._sums_round = number
        known = self._sums.get((measure, topics))
        if known is not None:
            return known
        total: list[float] = [NAN] * count
        async for topic in slices.over(topics):
            for series in self._history.parts(measure, topic).values():
                total = added(total, series.values(count))
        if self._history.rounds.count == number:
            while len(self._sums) >= SUMS_MAX:
                del self._sums[next(iter(self._sums))]
            self._sums[measure, topics] = total
        return total
