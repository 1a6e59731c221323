"""Histories of share groups with real brokers. Run in processes of their own, where sets of strings have one order."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.as_process import simulation
from tests.simulation.coverage import shortfalls
from tests.simulation.shares.coverage import MINIMUMS


@pytest.mark.timeout(600)
def test_a_history_holds_and_a_seed_is_the_same_history_in_another_process() -> None:
    one, again = simulation("--shares", "--seed", "100"), simulation("--shares", "--seed", "100")
    assert one.returncode == 0 and "holds" in one.stdout, one.stdout + one.stderr
    assert one.stdout == again.stdout


def test_histories_that_meet_too_little_are_told() -> None:
    assert len(shortfalls(Counter(), 100, MINIMUMS)) == len(MINIMUMS)
    assert shortfalls(Counter(MINIMUMS), 100, MINIMUMS) == []
