"""The options `--format` and `--raw` of the commands that print records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from runtime.command_line.output import prints_on_terminal
from tools.records.line_template import LineTemplate
from tools.records.line_text import Line, LineText

_FIELDS = "%k key, %v or %s value, %p partition, %o offset, %D time, %h headers, %t topic ..., as of kcat"


def format_options(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The command's function is called with `template`, the form of its lines, and `is_raw`."""

    def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--raw", "is_raw", is_flag=True, help="print bytes as they are, also on a terminal")(
            function
        )
        return click.option(
            "-f", "--format", "template", default=default, metavar="FORMAT", callback=_template,
            help=f"{_FIELDS} [{default}]",
        )(function)  # fmt: skip

    return with_options


def line_text(*, is_raw: bool, as_json: bool) -> LineText:
    """Return the texts of this command's output. Raises click.UsageError."""
    if is_raw and as_json:
        raise click.UsageError("--raw and --json do not go together: JSON is text, with base64 for other bytes")
    return LineText(is_raw=is_raw, is_terminal=prints_on_terminal())


def template_line(template: LineTemplate, texts: LineText) -> Line:
    """Return what makes the lines of records. Raises click.UsageError."""
    try:
        return template.line(texts)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _template(_context: click.Context, _option: click.Parameter, template: str) -> LineTemplate:
    try:
        return LineTemplate.parse(template)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
