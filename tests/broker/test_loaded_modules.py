"""What a broker has loaded when it starts: nothing that only some brokers use, since each idle megabyte is resident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LOAD = """
import sys
sys.path.insert(0, {root!r})
from barnabas import commands
from broker import process
from barnabas import start
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    run = [sys.executable, "-I", "-c", LOAD.format(root=str(ROOT))]
    return set(subprocess.run(run, check=True, capture_output=True, text=True, timeout=60).stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "importlib.metadata",
        "email",
        "zipfile",
        "lz4",
        "snappy",
        "cramjam",
        "zstandard",
        "metadata.store.zookeeper.store",
        "broker.owner_socket",
        "broker.network.faults.fault_table",
        "broker.network.faults.faulty_dispatch",
    ],
)
def test_is_not_loaded(loaded: set[str], module: str) -> None:
    assert "broker.server" in loaded
    assert module not in loaded
