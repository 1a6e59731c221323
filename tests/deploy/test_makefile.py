"""The Makefile chooses an interpreter that runs, and says what it needs where none does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIM = "#!/bin/sh\necho 'pyenv: python: command not found' >&2\nexit 127\n"
"""What a version manager has for a version that is installed and not chosen."""
NEEDED = "Python 3.11, 3.12, 3.13 or 3.14 is needed"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with programs, and the only one on the PATH: names of interpreters that do not run."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python3.11", "python3.12", "python3"):
        program(folder / name, SHIM)
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clone = programs.parent / "clone"
    (clone / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", clone)
    (clone / "requirements" / "runtime.txt").touch()
    tool = shutil.which("make")
    assert tool is not None
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")
    }
    return subprocess.run(
        [tool, "-C", str(clone), "--no-print-directory", *arguments],
        env=environment | {"PATH": str(programs)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_first_interpreter_that_runs_is_taken(programs: Path) -> None:
    program(programs / "python3.13", "#!/bin/sh\nexit 0\n")
    done = make(programs, "--eval", 'chosen: ; @echo "$(PYTHON)"', "chosen")
    assert (done.stdout, done.stderr) == (f"{programs / 'python3.13'}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], f"{NEEDED}; PYTHON=... chooses one"),
        (["PYTHON=python3.12"], f"{NEEDED}: python3.12 is none of them; PYTHON=... chooses one"),
    ],
)
def test_without_one_the_first_line_says_what_is_needed(programs: Path, arguments: list[str], message: str) -> None:
    done = make(programs, ".venv-run/.stamp", *arguments)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == message
