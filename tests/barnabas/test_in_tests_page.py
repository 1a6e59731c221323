"""The programs of the page about tests, and of the README's part about them, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {
    "docs/in-tests.md": (ROOT / "docs" / "in-tests.md").read_text(encoding="utf-8"),
    "README.md": (ROOT / "README.md").read_text(encoding="utf-8").split("\n## In tests\n")[1].split("\n## ")[0],
}
PROGRAMS = [
    pytest.param(program, id=f"{page} {number}")
    for page, text in TEXTS.items()
    for number, program in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL), 1)
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs(program: str, tmp_path: Path) -> None:
    file = tmp_path / "test_program.py"
    file.write_text(program)
    plugins = ["-p", "barnabas.pytest_plugin", "-p", "no:cacheprovider"]
    run = ["-m", "pytest", "-q", *plugins, str(file)] if "def test_" in program else [str(file)]
    done = subprocess.run(
        [sys.executable, *run],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in os.listdir(tmp_path) if name.startswith("barnabas-")] == []


def test_there_are_programs_in_both() -> None:
    assert len(PROGRAMS) == 6
