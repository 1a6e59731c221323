"""A seeded part of `tests.fuzz.store_server` for every run of the tests."""

from __future__ import annotations

import pytest

from tests.fuzz import store_server

CASES = 1_500


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_requests(seed: int) -> None:
    survivors = store_server.run(seed, CASES)
    assert CASES // 10 < survivors < CASES * 9 // 10, "the mutations are too weak or too strong to tell anything"
