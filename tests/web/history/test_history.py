"""The samples of the last hour: what is kept, and what is left out when the memory is used up."""

from __future__ import annotations

import pytest

from web.history.history import PARTS, History, Measure, plain
from web.history.series import NAN, Series

INTERVAL_MS = 10_000


def small_history(series_max: int) -> History:
    kept_ms = 50_000
    size = Series.bytes_of(kept_ms // INTERVAL_MS + 1)
    return History(INTERVAL_MS, size * series_max * PARTS, kept_ms)


def put_round(history: History, number: int, values: dict[str, float]) -> None:
    with history.round(number * INTERVAL_MS):
        for topic, value in values.items():
            history.put(Measure.RECORDS, value, topic)


def test_the_latest_value_is_that_of_the_last_round() -> None:
    history = small_history(4)
    put_round(history, 0, {"orders": 3.0})
    assert history.latest(Measure.RECORDS, "orders") == 3.0
    put_round(history, 1, {})
    assert history.latest(Measure.RECORDS, "orders") is None
    assert history.latest(Measure.RECORDS, "unknown") is None


def test_what_is_new_is_left_out_when_the_memory_is_used_up() -> None:
    history = small_history(2)
    put_round(history, 0, {"a": 1, "b": 1, "c": 1, "d": 1})
    assert sorted(history.subjects(Measure.RECORDS)) == ["a", "b"]
    assert history.left_out(Measure.RECORDS) == 2
    with history.round(INTERVAL_MS):
        history.put(Measure.LAG, 5, "group", "a")
    assert history.left_out(Measure.LAG) == 0, "each measure has its own part of the memory"
    assert history.latest(Measure.LAG, "group", "a") == 5


def test_subjects_that_have_been_gone_for_an_hour_make_room() -> None:
    history = small_history(2)
    put_round(history, 0, {"a": 1, "b": 1})
    for number in range(1, 8):
        put_round(history, number, {"b": 1})
    put_round(history, 8, {"b": 1, "c": 1, "d": 1})
    assert sorted(history.subjects(Measure.RECORDS)) == ["b", "c"]
    assert history.left_out(Measure.RECORDS) == 1


def test_a_measure_that_was_not_looked_at_keeps_its_values() -> None:
    history = small_history(2)
    put_round(history, 0, {"a": 7})
    with history.round(INTERVAL_MS):
        history.hold(Measure.RECORDS)
    assert list(history.parts(Measure.RECORDS, "a")[""].values(2)) == [7, 7]


@pytest.mark.parametrize(
    ("value", "shown"), [(NAN, None), (0.0, 0), (0.123456, 0.1235), (1234.5, 1234), (1234567.8, 1234568)]
)
def test_json_has_numbers_without_digits_that_say_nothing(value: float, shown: float | None) -> None:
    assert plain([value]) == [shown]
