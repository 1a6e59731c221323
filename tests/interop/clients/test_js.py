"""The whole tour with kafkajs, under node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).resolve().parent / "js"


@pytest.fixture(scope="session")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with its dependencies beside it. Node is nobody's requirement: without it there is nothing to run."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("js")
    for file in ("package.json", "package-lock.json", "tour.js", "sasl.js"):
        shutil.copy(PROGRAM / file, folder)
    install = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot fetch the packages: {installed.stderr[-300:]}")
    return folder / "tour.js"


def test_tour(bootstrap: str, tour: Path) -> None:
    run = subprocess.run(
        ["node", "--test", tour.name],
        env={**os.environ, "BOOTSTRAP": bootstrap, "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        cwd=tour.parent,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert "pass 5" in run.stdout, run.stdout[-3000:]
