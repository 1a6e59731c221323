"""How long an operation is tried."""

from __future__ import annotations

import random

import pytest

from client.attempts import AttemptTimes
from client.backoff import Backoff


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("from_now", "left_s"), [(True, 1.0), (False, 5.0)])
def test_the_time_is_counted_from_now_or_from_the_first_failure(from_now: bool, left_s: float) -> None:
    clock = Clock()
    tried = AttemptTimes(
        clock, random.Random(1), Backoff(1_000, 1_000), limit_ms=5_000, request_ms=2_000, from_now=from_now
    )
    clock.now_s += 4
    assert (tried.left_s, tried.left_for_request_s, tried.elapsed_s) == (left_s, min(left_s, 2.0), 0.0)
    assert tried.failed() == (None if from_now else 1.0), "a pause that would take all that is left"
    clock.now_s += 2
    assert tried.elapsed_s == 2
    assert tried.left_s == left_s - 2
    clock.now_s += 4
    assert tried.left_for_request_s == 0
    assert tried.failed() is None
