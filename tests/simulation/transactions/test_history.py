"""Histories of transactions with real brokers. Run in processes of their own, where sets of strings have one order."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.as_process import simulation
from tests.simulation.coverage import shortfalls
from tests.simulation.transactions.coverage import CLUSTER_MINIMUMS, MINIMUMS


@pytest.mark.timeout(600)
def test_histories_of_one_broker_hold() -> None:
    ran = simulation("--transactions", "--seeds", "12")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(600)
def test_histories_of_clusters_hold() -> None:
    ran = simulation("--cluster", "--transactions", "--seeds", "8")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(600)
def test_a_seed_is_the_same_history_in_another_process() -> None:
    one, again = simulation("--transactions", "--seed", "1"), simulation("--transactions", "--seed", "1")
    assert "trace" in one.stdout, one.stderr
    assert one.stdout == again.stdout


@pytest.mark.timeout(600)
def test_planted_bugs_are_found_and_named_with_the_seed() -> None:
    names = [
        "aborted-not-told",
        "decided-commits-resumed-as-aborts",
        "added-partitions-replace",
        "transaction-begins-too-early",
        "zombies-add-partitions",
        "epoch-bumped-by-a-commit",
        "aborted-offsets-committed",
        "offsets-never-unstable",
        "aborted-without-lower-bound",
        "transactions-not-loaded",
        "sequence-reused-behind-a-repetition",
        "commit-without-flush",
        "written-partition-not-added",
        "partition-of-offsets-not-added",
        "epoch-stays-at-the-end",
        "old-epoch-answered",
        "late-markers-taken",
    ]
    # One that takes more seeds has become hard to find: something hides it.
    ran = simulation("--within", "4", "--mutants", *names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(names)


@pytest.mark.parametrize("minimums", [MINIMUMS, CLUSTER_MINIMUMS])
def test_histories_that_meet_too_little_are_told(minimums: dict[str, int]) -> None:
    assert len(shortfalls(Counter(), 100, minimums)) == len(minimums)
    assert shortfalls(Counter(minimums), 100, minimums) == []
