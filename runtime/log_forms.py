"""The forms of a log line: for a terminal, as text (logfmt), as JSON.

Rules: pure but for the local time zone of a terminal's clock. A message of this project is `event: key=value key=value`, of
which JSON makes fields, with numbers as numbers; any other message is an event without fields. In text and JSON a record is
always one line, with its traceback as a field; control characters are escaped in each form, because clients choose some of
the texts. On a terminal a traceback follows its line, indented.
Source: logfmt; JSON lines; https://no-color.org.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import re
from functools import lru_cache
from typing import NamedTuple

TRACE = 5
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}
_NAMES = {number: name for name, number in LEVELS.items()}
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
"""Characters that move a cursor, or end a line for some program."""
_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04x}" for code in _CONTROLS}
    | {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
_JSON_ESCAPES = str.maketrans({chr(code): f"\\u{code:04x}" for code in _CONTROLS if code > 0x20})
_SHOWN_ESCAPES = str.maketrans({chr(code): f"\\x{code:02x}" for code in _CONTROLS if chr(code) not in "\n\t"})
_PLAIN = re.compile(r'[^\x00-\x20"=\\\x7f-\x9f\u2028\u2029]+')
_PAIR = re.compile(r"([a-z][a-z0-9_]*)=\n?((?:%#x|%[dsr])(?:[:/-]%[ds])?)")

_RESET, _DIM, _BOLD = "\033[0m", "\033[2m", "\033[1m"
_COLOURS = {"TRACE": "\033[2m", "DEBUG": "\033[36m", "INFO": "\033[32m", "WARN": "\033[33m", "ERROR": "\033[31m",
            "FATAL": "\033[1;31m"}  # fmt: skip


class TextFormatter(logging.Formatter):
    """`time=... level=info logger=broker.server msg="..."`."""

    def format(self, record: logging.LogRecord) -> str:
        line = (
            f"time={_utc(record)} level={level_name(record.levelno).lower()} "
            f"logger={record.name} msg={quoted(record.getMessage())}"
        )
        if record.exc_info:
            line += f" error={quoted(self.formatException(record.exc_info))}"
        return line


class JsonFormatter(logging.Formatter):
    """`{"time":...,"level":"info","logger":...,"event":"broker ready","broker":0,...}`, with the traceback as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _utc(record),
            "level": level_name(record.levelno).lower(),
            "logger": record.name,
        }
        event, fields = facts(record)
        line["event"] = event
        line.update(fields)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).translate(_JSON_ESCAPES)


class TerminalFormatter(logging.Formatter):
    """`12:00:00.000 INFO  broker ready: broker=0 ...  broker.process`, in colours if the terminal has some."""

    def __init__(self, *, has_colours: bool) -> None:
        super().__init__()
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created)  # noqa: DTZ006  its reader has this clock
        level = level_name(record.levelno)
        time, name = f"{moment:%H:%M:%S}.{int(record.msecs):03d}", record.name
        event, colon, rest = _shown(record.getMessage()).partition(": ")
        if self._has_colours:
            level = f"{_COLOURS[level]}{level:<5}{_RESET}"
            time, name, event = f"{_DIM}{time}{_RESET}", f"{_DIM}{name}{_RESET}", f"{_BOLD}{event}{_RESET}"
        line = f"{time} {level:<5} {event}{colon}{rest}  {name}"
        if record.exc_info:
            line += "\n    " + _shown(self.formatException(record.exc_info))
        return line


def level_name(number: int) -> str:
    """Return the name of the nearest level at or below `number`."""
    return _NAMES[max((known for known in _NAMES if known <= number), default=TRACE)]


def quoted(text: str) -> str:
    """Return a logfmt value: unquoted if it is one plain word, else in double quotes with escapes."""
    return text if _PLAIN.fullmatch(text) else f'"{text.translate(_ESCAPES)}"'


class _Field(NamedTuple):
    key: str
    form: str
    arguments_count: int


class _Message(NamedTuple):
    event: str
    fields: tuple[_Field, ...]


def facts(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """Return the event of a record and its fields. A message of other code is an event without fields."""
    arguments = record.args
    if not arguments or not isinstance(arguments, tuple) or not isinstance(record.msg, str):
        return record.getMessage(), {}
    message = _parsed(record.msg)
    if message is None or len(arguments) != sum(field.arguments_count for field in message.fields):
        return record.getMessage(), {}
    fields: dict[str, object] = {}
    position = 0
    for field in message.fields:
        values = arguments[position : position + field.arguments_count]
        fields[field.key] = _value(field.form, values)
        position += field.arguments_count
    return message.event, fields


@lru_cache(maxsize=1024)
def _parsed(message: str) -> _Message | None:
    """Take a literal of a log call apart; None if it does not have this project's form."""
    event, colon, rest = message.partition(": ")
    if not colon or "%" in event:
        return None
    pairs = [_PAIR.fullmatch(fact) for fact in rest.split(" ")]
    fields = tuple(_Field(pair[1], pair[2], pair[2].count("%")) for pair in pairs if pair is not None)
    return _Message(event, fields) if len(fields) == len(pairs) else None


def _value(form: str, values: tuple[object, ...]) -> object:
    if form not in ("%d", "%s", "%r"):
        return form % values
    value = values[0]
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value if value is None else str(value)


def _utc(record: logging.LogRecord) -> str:
    moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z"


def _shown(text: str) -> str:
    """Return a text as a terminal may show it: it moves no cursor, and what follows a line break is indented."""
    return text.translate(_SHOWN_ESCAPES).replace("\n", "\n    ")
