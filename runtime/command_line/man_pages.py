"""Man pages of all commands, one each, made when the wheel is built.

Rules: what a page says is what `--help` says; click-man writes the form. The same commands give the same pages at any time.
Source: man-pages(7), groff_man(7).
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click
from click_man.man import ManPage

NAME = "barnabas"
_EXIT_STATUS = """.SH EXIT STATUS
0 when it is done, 1 when it failed, with the reason on standard error, 2 for wrong options.
"""
_FILES = """.SH FILES
.TP
\\fI~/.config/barnabas/NAME.properties\\fP
a profile: settings of a client with Apache Kafka's names, which \\fB\\-\\-profile\\fP NAME and \\fBBARNABAS_PROFILE\\fP choose
"""


def man_pages(root: click.Group, version: str) -> dict[str, str]:
    """Return the pages of a command and all below it, by the name of the file."""
    return {f"{_name(context)}.1": _page(context, version) for context in _contexts(root, None)}


def _contexts(command: click.Command, parent: click.Context | None) -> Iterator[click.Context]:
    context = _context(command, parent, command.name if parent is not None else NAME)
    yield context
    for inner in _inner(context):
        yield from _contexts(inner.command, context)


def _inner(context: click.Context) -> list[click.Context]:
    """Return the commands of a group; none of a command that is no group."""
    if not isinstance(context.command, click.Group):
        return []
    found = (context.command.get_command(context, name) for name in context.command.list_commands(context))
    return [_context(command, context, command.name) for command in found if command is not None]


def _context(command: click.Command, parent: click.Context | None, name: str | None) -> click.Context:
    """Return a context as the command makes it: its names of the option for help stay with the command."""
    return click.Context(command, parent, name, **command.context_settings)


def _page(context: click.Context, version: str) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version, page.date = version, ""
    page.short_help = _text(_short_help(context))
    page.description = _text("\n\n".join(cleandoc(text) for text in (command.help, command.epilog) if text))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    page.options = [(option, _text(text)) for option, text in filter(None, records)]
    text = str(page).replace(f'.TH "{context.command_path.upper()}"', f'.TH "{_name(context).upper()}"', 1)
    inner = _inner(context)
    if inner:
        text += ".SH COMMANDS\n"
    for each in inner:
        text += f".TP\n\\fB{_name(each)}\\fP(1)\n{_text(_short_help(each))}\n"
    text += _EXIT_STATUS + _FILES
    if context.parent is not None:
        text += f".SH SEE ALSO\n\\fB{_name(context.parent)}\\fP(1)\n"
    return text


def _name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _short_help(context: click.Context) -> str:
    if context.parent is None:
        return "a Kafka-compatible broker, and commands for any Kafka cluster"
    return context.command.get_short_help_str(limit=90).removesuffix(".")


def _text(text: str) -> str:
    """Escape what would be a command of roff."""
    lines = text.replace("\b\n", "").replace("\\", "\\e").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
