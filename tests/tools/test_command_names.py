"""How commands and their options may be called, beside their own names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.commands import ALIASES, TABLE, main
from barnabas.embedded import EmbeddedBroker
from tests.tools.test_commands import broker

__all__ = ["broker"]


@pytest.mark.parametrize("option", ["-b", "--bootstrap-server", "--bootstrap-servers"])
def test_servers_are_named_by_the_options_of_all_kinds_of_clients(
    broker: EmbeddedBroker, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["topic", "list", option, broker.bootstrap_servers]) == 0, capfd.readouterr().err


def test_every_group_of_commands_has_a_singular() -> None:
    assert {"topic", "config", "group", "partition", "transaction", "acl", "quota", "record", "broker"} < ALIASES.keys()
    assert ALIASES["user"] == "users"
    assert not ALIASES.keys() & TABLE.keys()
    for given, usage in (("topic", "barnabas topics [OPTIONS]"), ("user", "barnabas users [OPTIONS]")):
        line = [sys.executable, "-m", "barnabas.cli", given, "--help"]
        assert usage in subprocess.run(line, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topics", "descibe"], "did you mean describe?"),
        (["topics", "list", "--exclude-internl"], "--exclude-internal"),
        (["consume", "t", "--from-begining"], "--from-beginning"),
    ],
)
def test_an_unknown_command_or_option_names_the_nearest(
    arguments: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capfd.readouterr().err
