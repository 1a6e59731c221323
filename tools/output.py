"""What commands print: tables for people, JSON for programs.

Rules: results go to standard output, everything else to standard error. Colours, boxes and bars only on a terminal; elsewhere
a table is aligned text with one row a line, so that `grep` and `awk` work. With `--json` the result is one JSON document, or
one a line where rows come one after the other. Names and messages may hold anything: what a terminal would obey, and what ends
a line, is escaped (`runtime.texts.visible`), in JSON as JSON does it. Records go to a file or a pipe as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from runtime.clock import SystemClock
from runtime.status_line import StatusLine, is_terminal
from runtime.texts import size_text, visible, visible_json

if TYPE_CHECKING:
    from tools.records.record_view import RecordView

NONE = "-"
"""How a table shows that there is no value."""
_BYTES = "bytes"
STATUS = StatusLine(SystemClock())
"""The line of this process that says what a command does or waits for; it is removed before anything else is printed."""


class Output:
    """Of one command. `as_json` is its option `--json`."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print rows: as JSON with all that they have, as a table with these columns. Columns of bytes are sizes there."""
        if self.as_json:
            self.document(list(rows))
            return
        STATUS.clear()
        texts = [[visible(_text(row.get(column), column)) for column in columns] for row in rows]
        heads = [column.replace("_", " ").upper() for column in columns]
        if prints_on_terminal():
            _print_rich(heads, texts)
        else:
            _print_plain(heads, texts)

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        STATUS.clear()
        click.echo(_json(value, indent=2))

    def line(self, value: Mapping[str, Any], text: str) -> None:
        """Print a result that is one of many: a JSON object on a line, or `text`."""
        STATUS.clear()
        sys.stdout.write(f"{_json(value) if self.as_json else visible(text)}\n")

    def record(self, record: RecordView, line: str | bytes) -> None:
        """Print a record: a JSON object on a line, or its line, which is made for this output and has its end."""
        STATUS.clear()
        if self.as_json:
            sys.stdout.write(f"{_json(record.as_json())}\n")
        elif isinstance(line, bytes):
            sys.stdout.buffer.write(line)
        else:
            sys.stdout.write(line)

    def result(self, value: Mapping[str, Any], text: str) -> None:
        """Print the one result of a command: a JSON document, or a sentence."""
        if self.as_json:
            self.document(value)
        else:
            STATUS.clear()
            click.echo(visible(text))

    @staticmethod
    def lines(text: str) -> None:
        """Print lines that another command or a program reads; on a terminal without what it would obey."""
        STATUS.clear()
        click.echo(visible(text, keeps_lines=True) if prints_on_terminal() else text, nl=False)

    @staticmethod
    def note(text: str) -> None:
        """Print to standard error what is no result."""
        STATUS.clear()
        click.echo(visible(text), err=True)


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


def _print_plain(heads: list[str], texts: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    for row in [heads, *texts]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_rich(heads: list[str], texts: list[list[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415  only a terminal needs it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))  # not markup: a name may have brackets
    Console().print(table)
