"""The whole tour with the Go clients: franz-go, sarama and segmentio/kafka-go."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import GO_PROGRAM

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("client", ["Franz", "Sarama", "Segmentio"])
def test_tour(bootstrap: str, tours: Path, client: str) -> None:
    run = subprocess.run(
        [str(tours), "-test.run", f"^Test{client}", "-test.timeout", "400s"],
        env={**os.environ, "BOOTSTRAP": bootstrap},
        cwd=GO_PROGRAM,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert "no tests to run" not in run.stdout
