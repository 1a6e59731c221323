"""The option `--format` of the commands that print records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tools.records.record_view import RecordView, formatter

Line = Callable[[RecordView], str]
_FIELDS = "%k key, %v value, %p partition, %o offset, %D time, %h headers, %t topic"


def format_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The command's function is called with `line_of`, which makes the line of a record, with its end."""
    return click.option(
        "--format", "line_of", default=default, metavar="FORMAT", callback=_line_of, help=f"{_FIELDS} [{default}]"
    )


def _line_of(_context: click.Context, _option: click.Parameter, template: str) -> Line:
    try:
        line = formatter(template)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return lambda record: f"{line(record)}\n"
