"""The delays of an event loop, and its idle time."""

from __future__ import annotations

import pytest

from runtime.loop_times import READINGS_KEPT, LoopTimes

S = 1_000_000_000


def test_before_the_start_it_is_idle() -> None:
    times = LoopTimes()
    assert (times.idle_ratio(), times.idle_ns()) == (1.0, 0)
    times.begin(5 * S, 1 * S)
    assert (times.idle_ratio(), times.idle_ns()) == (1.0, 0)


def test_what_the_thread_did_not_use_was_idle() -> None:
    times = LoopTimes()
    times.begin(5 * S, 1 * S)
    times.beat(3_000, 9 * S, 2 * S)
    assert times.idle_ratio() == pytest.approx(0.75)
    assert times.idle_ns() == 3 * S
    times.beat(0, 9 * S + 1, 9 * S)
    assert (times.idle_ratio(), times.idle_ns()) == (0.0, 0), "the clocks need not agree"


def test_the_ratio_is_that_of_the_last_half_a_minute() -> None:
    times = LoopTimes()
    times.begin(0, 0)
    for second in range(1, 101):
        times.beat(0, second * S, second * S)  # busy
    for second in range(101, 101 + READINGS_KEPT):
        times.beat(0, second * S, 100 * S)
    assert times.idle_ratio() == 1.0
    assert times.idle_ns() == READINGS_KEPT * S


def test_delays() -> None:
    times = LoopTimes()
    for late_ns in (-5_000, 2_000_000, 7_000_000):
        times.beat(late_ns, 0, 0)
    assert (times.delays.count, times.delays.total) == (3, 9_000_000)
