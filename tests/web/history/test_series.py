"""Rings of values: what is read back after any number of rounds, with gaps, and means of neighbours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.history.series import NAN, Rounds, Series, added, downsampled

KEPT = 5


def shown(values: object) -> list[float | None]:
    return [None if math.isnan(each) else each for each in values]  # type: ignore[attr-defined]


@given(st.integers(0, 12), st.lists(st.one_of(st.none(), st.integers(0, 1000)), max_size=30))
def test_a_series_gives_back_the_last_values_whatever_was_skipped(before: int, written: list[int | None]) -> None:
    rounds = Rounds(KEPT, 1_000_000)
    for number in range(before):
        rounds.begin(number)
        rounds.end()
    series = Series(rounds)
    expected: list[float | None] = [None] * before
    for number, value in enumerate(written, before):
        rounds.begin(number)
        if value is not None:
            series.write(value)
        count = len(rounds.times_ms())
        assert shown(series.values(count)) == expected[len(expected) - count :], "a round under way is not seen"
        rounds.end()
        expected.append(value)
    count = len(rounds.times_ms())
    assert count == min(len(expected), KEPT)
    assert shown(series.values(count)) == expected[len(expected) - count :]
    last = max((number for number, each in enumerate(expected) if each is not None), default=before - 1)
    assert series.is_over == (len(expected) - last > KEPT)


def test_a_held_value_is_that_of_the_round_before_and_no_older_one() -> None:
    rounds = Rounds(KEPT, 1_000_000)
    series = Series(rounds)
    for number, step in enumerate(("write", "hold", "none", "hold")):
        rounds.begin(number)
        if step == "write":
            series.write(7)
        if step == "hold":
            series.hold()
        rounds.end()
    assert shown(series.values(4)) == [7, 7, None, None]


def test_rounds_that_are_too_old_are_not_told() -> None:
    rounds = Rounds(100, 60_000)
    for now_ms in (0, 10_000, 50_000, 70_000, 100_000):
        rounds.begin(now_ms)
        rounds.end()
    assert rounds.times_ms() == [50_000, 70_000, 100_000]


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ([1, 2], [3, 4], [4, 6]),
        ([NAN, NAN, 1], [NAN, 5, NAN], [None, 5, 1]),
        ([], [], []),
    ],
)
def test_a_sum_is_of_what_is_known(left: list[float], right: list[float], total: list[float | None]) -> None:
    assert shown(added(left, right)) == total


@pytest.mark.parametrize(
    ("values", "points", "times", "means"),
    [
        ([1, 2, 3], 3, [0, 1, 2], [1, 2, 3]),
        ([1, 2, 3], 2, [0, 2], [1, 2.5]),
        ([1, NAN, 3, NAN, NAN], 3, [0, 2, 4], [1, 3, None]),
        ([], 3, [], []),
    ],
)
def test_neighbours_are_joined_to_their_mean(
    values: list[float], points: int, times: list[int], means: list[float | None]
) -> None:
    found_times, found = downsampled(range(len(values)), values, points)
    assert (found_times, shown(found)) == (times, means)


@given(st.lists(st.integers(0, 1000), max_size=400), st.integers(1, 400))
def test_there_are_never_more_points_than_were_asked_for(values: list[int], points: int) -> None:
    times, found = downsampled(range(len(values)), values, points)
    assert len(times) == len(found) <= points
    assert times[-1:] == list(range(len(values)))[-1:]
