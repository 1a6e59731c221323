"""Ranges of files in flight: histories hold, meet what they are for, and find planted bugs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.mutants import Mutant
from tests.simulation.mutants.ranges import RANGES
from tests.simulation.storage import ranges

SEEDS = 40
MINIMUMS = {
    "ranges": 300,
    "truncated above the high watermark": 150,
    "truncated below the high watermark": 150,
    "logs opened again": 100,
    "logs made anew": 30,
    "connections broken": 50,
    "segments deleted": 3,
    "segments merged": 20,
    "logs moved": 30,
}


def test_each_connection_carries_what_was_promised_or_breaks() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        met += ranges.run(seed)
    assert {what: met[what] for what, least in MINIMUMS.items() if met[what] < least} == {}


@pytest.mark.parametrize("mutant", RANGES, ids=lambda mutant: mutant.name)
def test_histories_find(mutant: Mutant) -> None:
    with mutant.planted():
        for seed in range(SEEDS):
            try:
                ranges.run(seed)
            except (AssertionError, OSError, RuntimeError):
                return
    pytest.fail(f"{mutant.name} lives: {mutant.what}")
