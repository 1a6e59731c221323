"""What commands over files print on a terminal, and elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from protocol.records.record import Record, encode_batch

ROOT = Path(__file__).parents[3]
VALUE = "a\x1b[2J\u202eb\nc"


def test_a_terminal_gets_no_control_characters_of_records(tmp_path: Path) -> None:
    """A file gets what Apache Kafka's tool prints."""
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(encode_batch([Record(0, 0, None, VALUE.encode(), [])]))
    command = [sys.executable, "-m", "barnabas.cli", "dump-log", "--print-data-log", "--files", str(log)]
    terminal, inner = pty.openpty()
    try:
        subprocess.run(command, cwd=ROOT, stdin=inner, stdout=inner, stderr=inner, timeout=60, check=True)
        shown = os.read(terminal, 100_000).decode()
    finally:
        os.close(terminal)
        os.close(inner)
    assert "payload: a\\x1b[2J\\u202eb\r\nc" in shown
    plain = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert f"payload: {VALUE}" in plain.stdout.decode()
