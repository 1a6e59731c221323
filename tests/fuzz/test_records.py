"""A seeded part of `tests.fuzz.records` for every run of the tests."""

from __future__ import annotations

import pytest

from tests.fuzz import records

CASES = 3000


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_batches(seed: int) -> None:
    taken = records.run(seed, CASES // 3)
    assert CASES // 3 // 20 < taken < CASES // 3 // 2, "the mutations are too weak or too strong to tell anything"
