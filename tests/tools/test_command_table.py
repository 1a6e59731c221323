"""Every command has a row in the table of tests, the test of the row runs it, and every option says what it is for."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import click
import pytest

from tests.tools.command_table import ROWS, commands

COMMANDS = dict(commands())


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    """A command without a row: add one to tests/tools/command_table.py."""
    assert sorted(COMMANDS) == sorted(ROWS)


@pytest.mark.parametrize("words", sorted(ROWS))
def test_the_test_of_a_row_runs_its_command(words: str) -> None:
    module, name = ROWS[words]
    source = inspect.getsource(getattr(importlib.import_module(module), name))
    assert ", ".join(f'"{word}"' for word in words.split()) in source


def test_what_destroys_has_the_option_and_is_listed_in_the_docs() -> None:
    """`users delete` is a command of the server."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    [rule] = re.findall(r"These commands have the option:\n\n(.*?)\n\n", page, re.DOTALL)
    listed = set(re.findall(r"`([a-z][a-z -]*)`", rule)) - {"users delete"}
    options = {words: {name for option in each.params for name in option.opts} for words, each in COMMANDS.items()}
    assert {words for words, names in options.items() if "--execute" in names} == listed
    assert all("--dry-run" in options[words] for words in listed)
    assert {words for words in COMMANDS if re.search("delete|remove|abort|cancel|reset", words)} <= listed


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_a_command_and_its_options_say_what_they_are_for(words: str) -> None:
    command = COMMANDS[words]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts
