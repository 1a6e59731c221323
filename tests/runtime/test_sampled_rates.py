"""Rates and token buckets answer as Apache Kafka's classes did to the same scripts; beyond them, quotas of zero."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runtime.sampled_rates import LONGEST_THROTTLE_MS, TokenBucket, WindowedRate
from tests.oracle.rates import scripts_in

SCRIPTS = scripts_in()


def _play(script: dict[str, Any]) -> list[list[float]]:
    window_ms, samples, bound = script["window_ms"], script["samples"], script["bound"]
    if script["stat"] == "rate":
        return _play_rate(WindowedRate(window_ms, samples), script, bound)
    bucket, answers = TokenBucket(samples * window_ms / 1000), []
    for what, value, now_ms in script["steps"]:
        answer: float = 0
        if what == "measure":
            answer = bucket.tokens(bound, now_ms)
        elif what == "strict":
            answer = bucket.throttle_ms(bound, now_ms)
            if not answer:
                bucket.take(value, bound, now_ms)
        else:
            bucket.take(value, bound, now_ms)
            answer = bucket.throttle_ms(bound, now_ms)
        answers.append([answer])
    return answers


def _play_rate(rate: WindowedRate, script: dict[str, Any], bound: float) -> list[list[float]]:
    answers: list[list[float]] = []
    for what, value, now_ms in script["steps"]:
        if what == "measure":
            answers.append([rate.per_second(now_ms), rate.window_ms(now_ms)])
        elif what == "unrecord":
            rate.record(-value, now_ms)
            answers.append([0])
        else:
            rate.record(value, now_ms)
            throttle_ms = rate.throttle_ms(bound, now_ms)
            answers.append([throttle_ms, min(throttle_ms, script["window_ms"])])
    return answers


@pytest.mark.parametrize("script", SCRIPTS, ids=[f"{each['stat']}-{number}" for number, each in enumerate(SCRIPTS)])
def test_as_apache_kafka(script: dict[str, Any]) -> None:
    for step, answer, expected in zip(script["steps"], _play(script), script["answers"], strict=True):
        within = [min(each, LONGEST_THROTTLE_MS) if step[0] != "measure" else each for each in map(float, expected)]
        assert answer == pytest.approx(within, rel=1e-12, nan_ok=True), step


@pytest.mark.parametrize("limit", [0, -1, -math.inf])
def test_above_a_quota_of_zero_the_throttle_time_is_the_window(limit: float) -> None:
    rate = WindowedRate(1000, 11)
    if limit == 0:
        assert rate.throttle_ms(limit, 5) == 0
    rate.record(1, 5)
    assert rate.throttle_ms(limit, 5) == 11_000
    if limit == 0:
        bucket = TokenBucket(11)
        bucket.take(1, limit, 5)
        assert bucket.throttle_ms(limit, 5) == 11_000


def test_no_throttle_time_is_longer_than_a_response_can_say() -> None:
    rate = WindowedRate(1000, 11)
    rate.record(2**60, 5)
    assert rate.throttle_ms(1e-6, 5) == LONGEST_THROTTLE_MS
