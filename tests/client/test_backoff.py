"""Pauses grow as Kafka's do, up to their limit, and vary by a fifth."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.backoff import JITTER, Backoff


class Middle(random.Random):
    """Of all that may come, what is in the middle."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:  # type: ignore[override]
        assert stop is not None
        return (start + stop) // 2


@pytest.mark.parametrize(
    ("first_ms", "most_ms", "pauses_ms"),
    [
        (100, 1000, [100, 200, 400, 800, 1000, 1000]),
        (50, 1000, [50, 100, 200, 400, 800, 1000]),
        (1000, 100, [100, 100]),
        (0, 1000, [0, 0, 0]),
        (5, 5, [5, 5]),
    ],
)
def test_pauses_without_jitter_are_those_of_apache_kafka(first_ms: int, most_ms: int, pauses_ms: list[float]) -> None:
    backoff = Backoff(first_ms, most_ms)
    found = [backoff.pause_ms(failures, Middle()) for failures in range(1, len(pauses_ms) + 1)]
    assert found == pytest.approx(pauses_ms)


@given(st.integers(0, 100_000), st.integers(0, 100_000), st.integers(0, 1 << 40), st.randoms(use_true_random=False))
def test_a_pause_is_near_its_term_and_never_above_the_limit(
    first: int, most: int, failures: int, seed: random.Random
) -> None:
    backoff = Backoff(first, most)
    term = backoff.pause_ms(failures, Middle())
    pause = backoff.pause_ms(failures, seed)
    assert pause <= most
    assert (1 - JITTER) * term - 1e-6 <= pause <= (1 + JITTER) * term + 1e-6
