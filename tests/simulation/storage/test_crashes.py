"""Crashes of the storage engine at changes of the disk chosen at random. Run in processes of their own, where sets of
strings have one order. `python -m tests.simulation --storage --seeds N` plays thousands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.simulation.coverage import shortfalls
from tests.simulation.storage.case import EVERY, Case, run
from tests.simulation.storage.coverage import MINIMUMS
from tests.simulation.storage.plan import plan_logs

ROOT = Path(__file__).parents[3]
SEEDS = 6


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
def test_nothing_that_was_promised_is_lost() -> None:
    ran = simulation("--storage", "--seeds", str(SEEDS))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(200)
def test_a_seed_is_the_same_case_in_another_process() -> None:
    one, again = simulation("--storage", "--seed", "1"), simulation("--storage", "--seed", "1")
    assert "trace" in one.stdout, one.stderr
    assert one.stdout == again.stdout


def test_every_change_of_a_short_life_can_be_the_last() -> None:
    case = Case(3, (EVERY,), steps=(6, 2))
    case.play()
    assert case.violation is None
    assert case.coverage["crashes"] >= case.coverage["changes"]


@pytest.mark.timeout(300)
def test_planted_bugs_are_found_and_named_with_the_seed() -> None:
    names = [
        "flush-without-names", "swap-forgotten", "recovery-point-stays", "txnindex-not-made-again", "move-not-marked",
        "stale-checkpoints",
    ]  # fmt: skip
    ran = simulation("--mutants", *names, "--within", "60")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(names)


def test_cases_that_meet_too_little_are_told() -> None:
    assert len(shortfalls(Counter(), 100, MINIMUMS)) == len(MINIMUMS)


def test_seeds_decide_what_there_is() -> None:
    plans = [plan_logs(Random(seed)) for seed in range(40)]
    assert len({tuple(plan.configs) for plan in plans}) > 3
    assert {len(plan.directories) for plan in plans} == {1, 2}
    assert {bool(plan.transactional) for plan in plans} == {plan.fills for plan in plans} == {True, False}
    assert run(0, crashes=()).violation is None
