"""`make test` runs every test: those that are marked serial are in the folders that it runs alone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKED = re.compile(r"\bmark\.serial\b")


def test_serial_tests_are_where_make_runs_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (folders,) = re.findall(r"^SERIAL := (.*)$", makefile, flags=re.MULTILINE)
    files = {path for path in (ROOT / "tests").rglob("*.py") if MARKED.search(path.read_text(encoding="utf-8"))}
    serial = {path for folder in folders.split() for path in (ROOT / folder).rglob("*.py")}
    assert files
    assert files <= serial
