"""What the command line loads before a command does something: the start of a command is the time of its imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.commands import CLUSTERS, TABLE

ROOT = Path(__file__).resolve().parents[2]
LOAD = """
import contextlib, io, sys
sys.path.insert(0, {root!r})
from barnabas.commands import main
with contextlib.redirect_stdout(io.StringIO()):
    for name in {names!r}:
        assert main([name, "--help"]) == 0
print(*sys.modules)
"""
MOST = 620
"""For all commands together: each takes about three hundred, most of them of the standard library."""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    text = LOAD.format(root=str(ROOT), names=[name for name, entry in TABLE.items() if entry.section == CLUSTERS])
    run = [sys.executable, "-I", "-c", text]
    return set(subprocess.run(run, check=True, capture_output=True, text=True, timeout=60).stdout.split())


@pytest.mark.parametrize(
    "module", ["kafka", "confluent_kafka.admin", "rich", "uvloop", "importlib.metadata", "broker.server", "storage"]
)
def test_is_not_loaded(loaded: set[str], module: str) -> None:
    assert "tools.commands.topics" in loaded
    assert module not in loaded


def test_few_modules_are_loaded(loaded: set[str]) -> None:
    assert len(loaded) < MOST, len(loaded)
