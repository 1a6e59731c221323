"""What commands print: tables for people, JSON for programs.

Rules: results go to standard output, everything else to standard error. Colours, boxes and bars only on a terminal; elsewhere
a table is aligned text with one row a line, so that `grep` and `awk` work. With `--json` the result is one JSON document, or
one a line where rows come one after the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tools.records.record_view import RecordView

NONE = "-"
"""How a table shows that there is no value."""


class Output:
    """Of one command. `as_json` is its option `--json`."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print rows: as JSON with all that they have, as a table with these columns."""
        if self.as_json:
            self.document(list(rows))
            return
        texts = [[_text(row.get(column)) for column in columns] for row in rows]
        heads = [column.replace("_", " ").upper() for column in columns]
        if sys.stdout.isatty():
            _print_rich(heads, texts)
        else:
            _print_plain(heads, texts)

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))

    def line(self, value: Mapping[str, Any], text: str) -> None:
        """Print a result that is one of many: a JSON object on a line, or `text`."""
        sys.stdout.write(f"{json.dumps(value, ensure_ascii=False, default=str) if self.as_json else text}\n")

    def record(self, record: RecordView, text: str) -> None:
        """Print a record: a JSON object on a line, or `text`, which has its end."""
        sys.stdout.write(f"{json.dumps(record.as_json(), ensure_ascii=False)}\n" if self.as_json else text)

    def result(self, value: Mapping[str, Any], text: str) -> None:
        """Print the one result of a command: a JSON document, or a sentence."""
        if self.as_json:
            self.document(value)
        else:
            click.echo(text)

    @staticmethod
    def note(text: str) -> None:
        """Print to standard error what is no result."""
        click.echo(text, err=True)


def _text(value: Any) -> str:
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
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

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in texts:
        table.add_row(*row)
    Console().print(table)
