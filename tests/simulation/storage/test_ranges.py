"""Ranges of files in flight: histories hold, meet what they are for, and find planted bugs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.coverage import shortfalls
from tests.simulation.mutants import Mutant
from tests.simulation.mutants.catalogue import hunt
from tests.simulation.mutants.ranges import RANGES
from tests.simulation.storage import ranges

SEEDS = 40


def test_each_connection_carries_what_was_promised_or_breaks() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = ranges.run(seed)
        assert outcome.violation is None, seed
        met += outcome.coverage
    assert shortfalls(met, SEEDS, ranges.MINIMUMS) == []


@pytest.mark.parametrize("mutant", RANGES, ids=lambda mutant: mutant.name)
def test_histories_find(mutant: Mutant) -> None:
    assert hunt(mutant, range(SEEDS)).violation is not None, f"it lives: {mutant.what}"
