"""Log lines are logfmt, each a record of its own."""

from __future__ import annotations

import logging
import shlex

import pytest

from broker.observability.logging_setup import LogfmtFormatter, level_name, quoted


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("a\nb\tc", '"a\\nb\\tc"'),
    ],
)
def test_values(text: str, written: str) -> None:
    assert quoted(text) == written


def test_a_line_with_a_traceback_is_one_line() -> None:
    try:
        raise ValueError("broken\nin two")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("broker.x", logging.WARNING, "f", 1, "went wrong: topic=%s", ("a b",), info)
    line = LogfmtFormatter().format(record)
    assert "\n" not in line
    fields = dict(field.split("=", 1) for field in shlex.split(line))
    assert (fields["level"], fields["logger"], fields["msg"]) == ("warn", "broker.x", "went wrong: topic=a b")
    assert "broken" in fields["error"]


@pytest.mark.parametrize(("number", "name"), [(0, "TRACE"), (10, "DEBUG"), (15, "DEBUG"), (30, "WARN"), (99, "FATAL")])
def test_level_names(number: int, name: str) -> None:
    assert level_name(number) == name
