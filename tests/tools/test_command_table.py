"""Every command has a row in the table of tests, the test of the row runs it, and every option says what it is for."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from barnabas.commands import CLUSTERS, TABLE
from tests.tools.command_table import ROWS, commands

COMMANDS = dict(commands())
SERVING = frozenset({"relay run", "web"})
"""They run until they are stopped: tests/web and tests/relay have their tests."""


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    """A command without a row: add one to tests/tools/command_table.py."""
    ending = COMMANDS.keys() - SERVING
    assert sorted(words for words in ending if TABLE[words.split()[0]].section == CLUSTERS) == sorted(ROWS)


@pytest.mark.parametrize("words", sorted(ROWS))
def test_the_test_of_a_row_runs_its_command(words: str) -> None:
    module, name = ROWS[words]
    source = inspect.getsource(getattr(importlib.import_module(module), name))
    assert ", ".join(f'"{word}"' for word in words.split()) in source


def test_what_destroys_has_the_option_and_is_listed_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    [rule] = re.findall(r"These commands have the option:\n\n(.*?)\n\n", page, re.DOTALL)
    listed = set(re.findall(r"`([a-z][a-z -]*)`", rule))
    options = {words: {name for option in each.params for name in option.opts} for words, each in COMMANDS.items()}
    assert {words for words, names in options.items() if "--execute" in names} == listed
    assert all("--dry-run" in options[words] for words in listed)
    assert {words for words in COMMANDS if re.search("delete|remove|abort|cancel|reset", words)} <= listed
