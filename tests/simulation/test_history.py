"""The real broker through seeded histories. Run in processes of their own, where sets of strings have one order."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.as_process import simulation
from tests.simulation.coverage import MINIMUMS, shortfalls

SEEDS = 20


@pytest.mark.timeout(400)
def test_histories_hold() -> None:
    ran = simulation("--seeds", str(SEEDS))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(200)
def test_a_seed_is_the_same_history_in_another_process() -> None:
    one, again, other = simulation("--seed", "3"), simulation("--seed", "3"), simulation("--seed", "4")
    assert "trace" in one.stdout, one.stderr
    assert one.stdout == again.stdout
    assert one.stdout.splitlines()[-1].split()[-1] != other.stdout.splitlines()[-1].split()[-1]


@pytest.mark.timeout(400)
def test_planted_bugs_are_found_and_named_with_the_seed() -> None:
    names = ["torn-tail-kept", "acknowledged-before-write", "producers-forgotten", "limit-one-short",
             "start-offset-not-kept", "rolled-segment-not-flushed", "commit-not-written", "nobody-woken",
             "assignment-used-after-revocation"]  # fmt: skip
    ran = simulation("--within", "40", "--mutants", *names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(names)


def test_histories_that_meet_too_little_are_told() -> None:
    assert len(shortfalls(Counter(), 100)) == len(MINIMUMS)
    assert shortfalls(Counter(MINIMUMS), 100) == []
