"""Histories of groups with real brokers. Run in processes of their own, where sets of strings have one order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.coverage import shortfalls
from tests.simulation.groups.coverage import MINIMUMS

ROOT = Path(__file__).parents[3]


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_histories_hold() -> None:
    ran = simulation("--groups", "--seeds", "5")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(600)
def test_planted_bugs_are_found_and_named_with_the_seed() -> None:
    names = ["partition-assigned-before-it-is-free", "revocation-not-awaited"]
    # One that takes more seeds has become hard to find: something hides it.
    ran = simulation("--within", "4", "--mutants", *names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(names)


def test_histories_that_meet_too_little_are_told() -> None:
    assert len(shortfalls(Counter(), 100, MINIMUMS)) == len(MINIMUMS)
    assert shortfalls(Counter(MINIMUMS), 100, MINIMUMS) == []
