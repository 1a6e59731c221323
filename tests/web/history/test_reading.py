"""Lines of a plot: sums over topics and over a group, and that rounds meanwhile do not mix their times."""

from __future__ import annotations

import math

from runtime.slices import Slices
from tests.doubles.clock import ManualClock
from web.history.history import History, Measure
from web.history.reading import HistoryReading

MiB = 1024 * 1024


def put(history: History, now_ms: int, **values: float) -> None:
    with history.round(now_ms):
        for topic, value in values.items():
            history.put(Measure.RECORDS, value, topic)


async def test_a_sum_is_over_what_may_be_seen_and_follows_the_rounds() -> None:
    history, clock = History(10_000, MiB), ManualClock()
    reading = HistoryReading(history)
    put(history, 0, a=1, b=2, hidden=100)
    for _ in range(2):
        plot = await reading.sums(frozenset({"a", "b", "gone"}), [Measure.RECORDS], Slices(clock))
        assert (plot.times_ms, [list(line.values) for line in plot.lines]) == ([0], [[3]])
    put(history, 10_000, a=5)
    plot = await reading.sums(frozenset({"a", "b"}), [Measure.RECORDS], Slices(clock))
    assert (plot.times_ms, [list(line.values) for line in plot.lines]) == ([0, 10_000], [[3, 5]])
    plot = await reading.sums(frozenset({"hidden"}), [Measure.RECORDS], Slices(clock))
    assert plot.lines[0].values[0] == 100 and math.isnan(plot.lines[0].values[1])


async def test_a_round_that_ends_while_a_sum_is_made_is_in_it() -> None:
    history = History(10_000, MiB)
    put(history, 0, a=1, b=2)

    class RoundEnds(ManualClock):
        """In the middle of the sum another round ends."""

        readings = 0

        def monotonic_ms(self) -> int:
            self.readings += 1
            if self.readings == 3:
                put(history, 10_000, a=10, b=20)
            return 0

    plot = await HistoryReading(history).sums(frozenset({"a", "b"}), [Measure.RECORDS], Slices(RoundEnds()))
    assert (plot.times_ms, [list(line.values) for line in plot.lines]) == ([0, 10_000], [[3, 30]])


def test_the_lag_of_a_group_is_of_the_topics_that_may_be_seen() -> None:
    history = History(10_000, MiB)
    with history.round(0):
        for topic, lag in (("a", 1), ("b", 2), ("hidden", 100)):
            history.put(Measure.LAG, lag, "group", topic)
    reading = HistoryReading(history)
    lines = reading.group("group", {"a", "b"}).lines
    assert [(line.name, list(line.values)) for line in lines] == [("", [3]), ("a", [1]), ("b", [2])]
    assert reading.group("group", set()).lines == reading.group("unknown", {"a"}).lines == []
