"""Rates over samples, and who is throttled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.throttle import NO_LIMIT, ReplicationQuota, SampledRate
from tests.doubles.clock import ManualClock

ME = 101


def quota(clock: ManualClock, limit: int = 100) -> ReplicationQuota:
    return ReplicationQuota(clock.monotonic_ms, window_ms=1000, samples_max=3, limit_bytes_per_second=limit)


def test_the_rate_counts_at_least_one_sample() -> None:
    rate = SampledRate(1000, 3)
    assert rate.per_second(0) == 0
    rate.record(500, 10)
    assert rate.per_second(10) == 500
    assert rate.per_second(1010) == 500
    assert rate.per_second(2010) == 250


def test_old_samples_are_forgotten() -> None:
    rate = SampledRate(1000, 3)
    for second in range(10):
        rate.record(100, second * 1000)
    assert rate.per_second(9_000) == 150  # three samples over the two seconds that they began in
    assert rate.per_second(20_000) == 0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 1000)), max_size=60))
def test_memory_is_bounded_and_the_rate_never_negative(events: list[tuple[int, int]]) -> None:
    rate, now_ms = SampledRate(1000, 3), 0
    for pause_ms, count in events:
        now_ms += pause_ms
        rate.record(count, now_ms)
        assert len(rate._samples) <= 3
        assert 0 <= rate.per_second(now_ms) <= sum(count for _, count in events)


def test_a_limit_is_exceeded_until_time_has_made_up_for_it() -> None:
    clock = ManualClock(5_000)
    throttle = quota(clock)
    assert not throttle.is_exceeded
    throttle.record(250)
    assert throttle.is_exceeded
    clock.now_ms += 2000
    assert throttle.is_exceeded  # 125 a second
    clock.now_ms += 600
    assert not throttle.is_exceeded
    throttle.record(100)
    assert throttle.is_exceeded


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        ((), set()),
        (("0:101", "1:102", "2:101"), {0, 2}),
        (("*",), {0, 1, 2}),
        (("1:102",), set()),
        # Valid texts of the setting, as Kafka takes them, too: "0:101,", ",2:101", "", and numbers that nobody has.
        (("0:101", ""), {0}),
        (("", "2:101"), {2}),
        (("", "*"), {0, 1, 2}),
        (("00:0101",), {0}),
        (("1" * 5_000 + ":101", "1:" + "1" * 5_000, "2:101"), {2}),
    ],
)
def test_which_replicas_are_throttled(replicas: tuple[str, ...], throttled: set[int]) -> None:
    throttle = quota(ManualClock(5_000))
    throttle.throttle("t", replicas, ME)
    assert {index for index in range(3) if throttle.is_throttled("t", index)} == throttled
    assert not throttle.is_throttled("u", 0)
    assert throttle.is_active == bool(throttled)
    throttle.forget("t")
    assert not throttle.is_active


def test_without_a_limit_nothing_ever_waits() -> None:
    throttle = quota(ManualClock(5_000), NO_LIMIT)
    throttle.throttle("t", ["*"], ME)
    throttle.record(1 << 40)
    assert not throttle.is_exceeded
    assert not throttle.is_active
