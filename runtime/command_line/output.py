"""What commands print: tables for people, JSON for programs.

Rules: results go to standard output, everything else to standard error. A table is aligned text with one row a line, its
head bold on a terminal, so that `grep` and `awk` work. With `--json` the result is one JSON document, or
one a line where rows come one after the other. Names and messages may hold anything: what a terminal would obey, and what ends
a line, is escaped (`runtime.texts.visible`), in JSON as JSON does it. Records go to a file or a pipe as they are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from runtime.clock import SystemClock
from runtime.status_line import StatusLine, is_terminal
from runtime.texts import size_text, visible, visible_json

NONE = "-"
"""How a table shows that there is no value."""
_BYTES = "bytes"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
STATUS = StatusLine(SystemClock())
"""The line of this process that says what a command does or waits for; it is removed before anything else is printed."""


class OutputError(Exception):
    """Writing to standard output or standard error failed; its cause is the OSError. It is none itself, so that it is not taken
    for an error of a file that is read."""


class Output:
    """Of one command. `as_json` is its option `--json`."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print rows: as JSON with all that they have, as a table with these columns. Columns of bytes are sizes there."""
        if self.as_json:
            self.document(list(rows))
            return
        texts = [[visible(_text(row.get(column), column)) for column in columns] for row in rows]
        heads = [column.replace("_", " ").upper() for column in columns]
        is_bold = prints_on_terminal() and os.environ.get("TERM", "dumb") != "dumb" and "NO_COLOR" not in os.environ
        widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
        for row in [heads, *texts]:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            _write(f"{_BOLD}{line}{_PLAIN}" if row is heads and is_bold else line)
        sys.stdout.flush()

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        _write_now(_json(value, indent=2))

    def line(self, value: Mapping[str, Any], text: str) -> None:
        """Print a result that is one of many: a JSON object on a line, or `text`."""
        _write(_json(value) if self.as_json else visible(text))

    def record(self, as_json: Callable[[], Mapping[str, Any]], line: str | bytes) -> None:
        """Print a record: a JSON object on a line, or its line, which is made for this output and has its end."""
        STATUS.clear()
        if self.as_json:
            sys.stdout.write(f"{_json(as_json())}\n")
        elif isinstance(line, bytes):
            sys.stdout.buffer.write(line)
        else:
            sys.stdout.write(line)

    def result(self, value: Mapping[str, Any], text: str) -> None:
        """Print the one result of a command: a JSON document, or a sentence."""
        if self.as_json:
            self.document(value)
        else:
            _write_now(visible(text))

    @staticmethod
    def lines(text: str) -> None:
        """Print lines that another command or a program reads; on a terminal without what it would obey."""
        print_result(text.removesuffix("\n"))
        sys.stdout.flush()

    @staticmethod
    def note(text: str) -> None:
        """Print to standard error what is no result."""
        print_problem(visible(text))


def print_result(text: str) -> None:
    """Print a line or lines of a result; on a terminal without what it would obey. Raises OutputError."""
    _write(visible(text, keeps_lines=True) if prints_on_terminal() else text)


def announce(text: str) -> None:
    """Print at once that a process serves, which then goes on. Where standard output takes nothing, it is discarded: the
    process has other things to do."""
    try:
        _write_now(visible(text, keeps_lines=True) if prints_on_terminal() else text)
    except (OutputError, OSError):
        discard_output()


def print_problem(text: str) -> None:
    """Print to standard error, in order with results that go to the same place. Raises OutputError."""
    if sys.stderr is None:  # a broker whose parent has closed it
        return
    STATUS.clear()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.stderr.write(f"{visible(text, keeps_lines=True)}\n")
        sys.stderr.flush()
    except OSError as error:
        raise OutputError from error


def discard_output() -> None:
    """What is still in the buffer goes nowhere, instead of failing once more at the exit."""
    if sys.stdout is not None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def results_have_their_own_place() -> bool:
    """Return whether standard output and standard error go to different files or terminals."""
    try:
        places = [os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr)]
    except (OSError, ValueError, AttributeError):  # one is closed, or no file
        return False
    return not os.path.samestat(*places)


def prints_on_terminal() -> bool:
    """Return whether results go to a terminal."""
    return is_terminal(sys.stdout)


def _json(value: Any, indent: int | None = None) -> str:
    return visible_json(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def _text(value: Any, column: str) -> str:
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and column.endswith(_BYTES):
        return size_text(value)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or NONE
    return str(value)


def _write(line: str) -> None:
    STATUS.clear()
    try:
        sys.stdout.write(f"{line}\n")
    except OSError as error:
        raise OutputError from error


def _write_now(line: str) -> None:
    _write(line)
    sys.stdout.flush()
