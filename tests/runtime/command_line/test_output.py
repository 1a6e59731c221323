"""What commands print."""

from __future__ import annotations

import json
import re

import pytest

from runtime.command_line.output import Output


def test_columns_of_bytes_are_sizes_in_tables_and_numbers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"log_dir": "/a", "bytes": 1_500_000_000, "usable_bytes": None, "partitions": 1_500}]
    Output(as_json=False).table(rows, ("log_dir", "bytes", "usable_bytes", "partitions"))
    head, row = capsys.readouterr().out.splitlines()
    assert re.split("  +", head) == ["LOG DIR", "BYTES", "USABLE BYTES", "PARTITIONS"]
    assert re.split("  +", row) == ["/a", "1.5 GB", "-", "1500"]
    Output(as_json=True).table(rows, ("log_dir", "bytes"))
    assert json.loads(capsys.readouterr().out) == rows
