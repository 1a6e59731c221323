"""`python -m tests.simulation` as a process, in which sets of strings have one order: a seed does the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end; neither raises nor prints."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
