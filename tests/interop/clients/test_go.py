"""The whole tour with the Go clients: franz-go, sarama and segmentio/kafka-go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).resolve().parent / "go"


@pytest.fixture(scope="session")
def tours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled tours. Go is nobody's requirement: without it, or without its modules, there is nothing to run."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    if subprocess.run(["go", "mod", "download"], cwd=PROGRAM, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip("the Go modules cannot be fetched, or this Go is too old for them")
    binary = tmp_path_factory.mktemp("go") / "tours"
    built = subprocess.run(
        ["go", "test", "-c", "-o", str(binary), "."],
        cwd=PROGRAM,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return binary


@pytest.mark.parametrize("client", ["Franz", "Sarama", "Segmentio"])
def test_tour(bootstrap: str, tours: Path, client: str) -> None:
    run = subprocess.run(
        [str(tours), "-test.run", f"^Test{client}", "-test.timeout", "400s"],
        env={**os.environ, "BOOTSTRAP": bootstrap},
        cwd=PROGRAM,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert "no tests to run" not in run.stdout
