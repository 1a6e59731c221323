"""Rates over about a minute."""

from __future__ import annotations

from broker.observability.counter_rate import CounterRate


def test_the_first_reading_tells_nothing() -> None:
    rate = CounterRate()
    assert rate.per_minute(50, 1_000) == 0
    assert rate.per_minute(50, 1_000) == 0


def test_it_is_the_rate_of_the_last_minute() -> None:
    rate = CounterRate()
    rate.per_minute(0, 0)
    assert rate.per_minute(10, 15_000) == 40
    for second in range(30, 121, 15):
        found = rate.per_minute(10 + second, second * 1_000)
    assert found == 60, "what came before has no part in it"


def test_readings_that_are_seldom_are_compared_with_the_one_before() -> None:
    rate = CounterRate()
    rate.per_minute(0, 0)
    rate.per_minute(600, 600_000)
    assert rate.per_minute(660, 1_200_000) == 6
