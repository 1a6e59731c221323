"""The commands of the server as commands of this command line: for shell completion and man pages, not to be run. Pure.

Rules: what they are called and take is what their own parser says, an `argparse.ArgumentParser`; nothing is written down twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import click

_PATHS = ("FILE", "DIR")


def server_commands(parser: argparse.ArgumentParser) -> Iterator[click.Command]:
    """Return the commands below a parser."""
    for actions in _groups(parser):
        helps = {each.dest.partition(" ")[0]: each.help for each in actions._choices_actions}  # noqa: SLF001
        seen: set[int] = set()
        for name, inner in actions.choices.items():
            if id(inner) in seen:  # an alias stands beside the name
                continue
            seen.add(id(inner))
            yield _command(name, inner, helps.get(name) or "")


def _command(name: str, parser: argparse.ArgumentParser, short_help: str) -> click.Command:
    parameters = [_parameter(action) for action in _shown(parser) if not isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    texts = (parser.description or short_help, parser.epilog)
    text = "\n\n".join(each for each in texts if each)
    inner = list(server_commands(parser))
    if inner:
        group = click.Group(name, params=parameters, help=text, short_help=short_help)
        for command in inner:
            group.add_command(command)
        return group
    return click.Command(name, params=parameters, help=text, short_help=short_help)


def _groups(parser: argparse.ArgumentParser) -> Iterator[argparse._SubParsersAction[argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to ask a parser what it takes
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield action


def _shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001
        if action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):  # noqa: SLF001
            yield action


def _parameter(action: argparse.Action) -> click.Parameter:
    metavar = action.metavar if isinstance(action.metavar, str) else None
    kind: Any = click.STRING
    if action.choices is not None:
        kind = click.Choice([str(choice) for choice in action.choices])
    elif metavar is not None and any(path in metavar.split("|") for path in _PATHS):
        kind = click.Path()
    elif action.type is int:
        kind = click.INT
    if not action.option_strings:
        is_many = action.nargs in ("*", "+")
        return click.Argument(
            [action.dest], type=kind, metavar=metavar, required=action.required, nargs=-1 if is_many else 1
        )
    text = (action.help or "") % {"default": action.default, "prog": "barnabas"}
    if action.nargs == 0:
        return click.Option([*action.option_strings, action.dest], is_flag=True, help=text)
    return click.Option(
        [*action.option_strings, action.dest], type=kind, metavar=metavar, help=text, required=action.required
    )
