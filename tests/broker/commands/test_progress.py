"""The line that says how far a command over files has come."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from broker.commands.progress import ProgressLine
from runtime.status_line import PLAIN_PAUSE_MS
from tests.doubles.clock import ManualClock

ROOT = Path(__file__).parents[3]


def test_it_tells_files_bytes_and_rate_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    line = ProgressLine(clock, 340)
    line.show(1, 100)
    assert capsys.readouterr().err == "", "what is over at once is not told"
    clock.now_ms += PLAIN_PAUSE_MS
    line.show(12, 30_000_000)
    line.show(13, 40_000_000)
    assert capsys.readouterr().err == "12 of 340 files, 30.0 MB, 6.0 MB/s\n"
    clock.now_ms += PLAIN_PAUSE_MS
    ProgressLine(clock, is_shown=False).show(1, 1)
    assert capsys.readouterr().err == ""
    assert ProgressLine(clock).text(1, 1500, 1000) == "1 file, 1.5 kB, 1.5 kB/s"


def test_a_dump_has_its_progress_elsewhere() -> None:
    for place, is_elsewhere in ((subprocess.PIPE, True), (subprocess.STDOUT, False)):
        code = "from broker.commands.output import *; print(results_have_their_own_place())"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=place, check=True)
        assert done.stdout.decode().strip() == str(is_elsewhere)


def test_a_search_on_a_terminal_leaves_the_line_with_its_result(tmp_path: Path) -> None:
    """The line is removed, whether or not it was written; without a terminal standard error has no escape."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(b"")
    command = [sys.executable, "-m", "barnabas.cli", "log", "find", str(tmp_path), "--key", "k"]
    terminal, inner = pty.openpty()
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=inner, timeout=60, check=False)
        told = os.read(terminal, 4096).decode()
    finally:
        os.close(terminal)
        os.close(inner)
    assert (done.returncode, done.stdout) == (1, b"")
    assert "0 records found in 1 segment of 1 partition" in told
    plain = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert plain.stderr == "0 records found in 1 segment of 1 partition\n"
