"""A record is one line in each form for programs, and moves no cursor on a terminal."""

from __future__ import annotations

import json
import logging
import re
import shlex
from types import TracebackType

import pytest

from runtime.log_forms import JsonFormatter, TerminalFormatter, TextFormatter, level_name, quoted

HOSTILE = "a\x1b[2J\u2028b\x85c"


def raised() -> tuple[type[BaseException], BaseException, TracebackType | None]:
    try:
        raise ValueError("broken\nin two")
    except ValueError as error:
        return ValueError, error, error.__traceback__


def record(message: str, *arguments: object, fails: bool = False, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("broker.x", level, "f", 1, message, arguments, raised() if fails else None)


def as_json(message: str, *arguments: object, fails: bool = False) -> dict[str, object]:
    line = JsonFormatter().format(record(message, *arguments, fails=fails))
    assert len(line.splitlines()) == 1
    told: dict[str, object] = json.loads(line)
    return told


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
        (HOSTILE, '"a\\u001b[2J\\u2028b\\u0085c"'),
    ],
)
def test_values(text: str, written: str) -> None:
    assert quoted(text) == written


def test_a_line_of_text_with_a_traceback_is_one_line() -> None:
    line = TextFormatter().format(record("went wrong: topic=%s", "a b", fails=True))
    assert len(line.splitlines()) == 1
    fields = dict(field.split("=", 1) for field in shlex.split(line))
    assert (fields["level"], fields["logger"], fields["msg"]) == ("warn", "broker.x", "went wrong: topic=a b")
    assert "broken" in fields["error"]


def test_the_facts_of_a_message_are_fields_of_json() -> None:
    message = "client left: client_id=%r address=%s:%d count=%d session=%#x error=%s"
    told = as_json(message, "a b", "h", 9092, 3, 255, OSError("no"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(told.pop("time")))
    assert told == {
        "level": "warn", "logger": "broker.x", "event": "client left", "client_id": "a b", "address": "h:9092", "count": 3,
        "session": "0xff", "error": "no",
    }  # fmt: skip


def test_a_text_may_begin_on_the_next_line() -> None:
    assert as_json("loop blocked: stack=\n%s", "a\nb")["stack"] == "a\nb"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, True), (None, None), (1.5, 1.5), (float("nan"), "nan"), (["a"], "['a']"), (HOSTILE, HOSTILE)],
)
def test_values_of_json(value: object, shown: object) -> None:
    assert as_json("x: key=%s", value)["key"] == shown


@pytest.mark.parametrize(
    ("message", "arguments", "event"),
    [
        ("nothing but words", (), "nothing but words"),
        ("100 % of it: a=b", (), "100 % of it: a=b"),
        ("Executing %s took %.3f seconds", ("task", 0.25), "Executing task took 0.250 seconds"),
        ("other: %s", ("form",), "other: form"),
    ],
)
def test_a_message_of_other_code_is_an_event(message: str, arguments: tuple[object, ...], event: str) -> None:
    assert set(told := as_json(message, *arguments)) == {"time", "level", "logger", "event"}
    assert told["event"] == event


def test_a_traceback_is_a_field_of_json() -> None:
    assert "ValueError: broken\nin two" in str(as_json("went wrong: topic=%s", "t", fails=True)["exception"])


def test_a_line_on_a_terminal() -> None:
    line = TerminalFormatter(has_colours=False).format(record("went wrong: topic=%s error=%s", "t", HOSTILE))
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d{3} WARN  went wrong: topic=t error=a\\x1b\[2J\\x2028b\\x85c  broker\.x", line
    )


def test_a_terminal_shows_a_traceback_below_its_line() -> None:
    first, *rest = TerminalFormatter(has_colours=False).format(record("went wrong", fails=True)).split("\n")
    assert first.endswith("went wrong  broker.x")
    assert rest[0] == "    Traceback (most recent call last):" and all(line.startswith("    ") for line in rest)


@pytest.mark.parametrize("level", [5, 10, 20, 30, 40, 50])
def test_colours_are_around_what_is_there_without_them(level: int) -> None:
    line = record("went wrong: topic=%s", "t", level=level)
    coloured, plain = (TerminalFormatter(has_colours=has).format(line) for has in (True, False))
    assert "\033[" in coloured
    assert re.sub(r"\033\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(("number", "name"), [(0, "TRACE"), (10, "DEBUG"), (15, "DEBUG"), (30, "WARN"), (99, "FATAL")])
def test_level_names(number: int, name: str) -> None:
    assert level_name(number) == name
