"""The tree of commands: one form of help, one form of mistakes, and what to type where an extra is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from barnabas.commands import ALIASES, TABLE, main
from tests.tools.command_table import commands

COMMANDS = dict(commands())
ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
sys.path.insert(0, {root!r})
sys.modules.update(dict.fromkeys({absent!r}))
from barnabas.commands import main
sys.exit(main({arguments!r}))
"""


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_help_has_one_form(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-h", "--help"):
        assert main([*words.split(), option]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: barnabas {words} [OPTIONS]")
    assert "  -h, --help" in text and "Show this message and exit." in text
    extra = TABLE[words.split()[0]].extra
    assert extra is None or " ".join(text.split()).endswith(extra.sentence)
    command = COMMANDS[words]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts
            assert parameter.hidden or parameter.opts[0] in text


def test_the_commands_are_listed_with_the_extra_that_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    server, _, rest = text.partition("\nCommands for any Kafka cluster:\n")
    tools, _, spark = rest.partition("\nSpark:\n")
    assert "  start " in server and "  topics " in tools and "  pipeline " in spark
    assert "find records by key, header or content (extra cli)\n" in tools
    assert "run Spark jobs on topics (extra spark)\n" in spark
    assert all(f"  {name} " in text for name in TABLE)
    assert not any(f"  {name} " in text for name in ALIASES)


@pytest.mark.parametrize("group", ["", "users", "log"])
def test_a_word_without_a_command_is_answered_with_the_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(group.split()) == 2
    assert capsys.readouterr().out.startswith(f"Usage: {' '.join(['barnabas', *group.split()])} [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["toppics", "list"], "unknown command toppics: did you mean topics?\n`barnabas --help` "),
        (["strat"], "unknown command strat: did you mean start?\n`barnabas --help` "),
        (["zzzz"], "unknown command zzzz\n`barnabas --help` "),
        (["users", "dele", "bob"], "unknown command dele: did you mean delete?\n`barnabas users --help` "),
        (["topics", "descibe"], "unknown command descibe: did you mean describe?\n`barnabas topics --help` "),
        (["start", "--overide=a=b"], "unknown option --overide: did you mean --override?\n`barnabas start --help` "),
        (["user", "list", "--profil", "x"], "unknown option --profil: did you mean --profile?\n`barnabas users list --help` "),
        (["start", "a.properties", "more"], "Got unexpected extra argument (more)\n`barnabas start --help` "),
        (["users", "list", "--data-dir", "x", "--zookeeper", "y"], "--zookeeper and --data-dir do not go together\n`barna"),
        (["log", "find", "x", "--key", "a", "--key-hex", "00"], "--key and --key-hex do not go together\n`barnabas log find"),
        (["topics", "list", "--exclude-internl"], "unknown option --exclude-internl: did you mean --exclude-internal?\n`barn"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_one_that_names_the_help(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 2)
    assert err.startswith(f"barnabas: {told}")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["produce", "t"], 'barnabas: `barnabas produce` needs the extra cli: in a clone, pip install ".[cli]"\n'),
        (["find", "--help"], 'barnabas: `barnabas find` needs the extra cli: in a clone, pip install ".[cli]"\n'),
        (["--help"], ""),
        (["users", "--help"], ""),
        (["topics", "--help"], ""),
        (["pipeline", "--help"], ""),
    ],
)
def test_a_command_whose_extra_is_missing_says_the_line_to_type(arguments: list[str], told: str) -> None:
    code = WITHOUT.format(root=str(ROOT), absent=["confluent_kafka", "pyspark"], arguments=arguments)
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (int(bool(told)), told)


@pytest.mark.parametrize(
    "module",
    [
        "argparse",
        "difflib",
        "confluent_kafka",
        "tools",
        "barnabas.pipeline",
        "broker.commands.users",
        "storage.offline",
    ],
)
def test_a_start_does_not_load_what_it_does_not_need(module: str, loaded: set[str]) -> None:
    assert "broker.process" in loaded
    assert not {name for name in loaded if name == module or name.startswith(f"{module}.")}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a broker that cannot listen at its address, and so ends."""
    folder = tmp_path_factory.mktemp("data")
    line = [sys.executable, "-X", "importtime", "-m", "barnabas.cli", "start", "--override", f"log.dirs={folder}"]
    line += ["--override", "listeners=PLAINTEXT://192.0.2.1:9092"]
    done = subprocess.run(line, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return {each.rpartition("|")[2].strip() for each in done.stderr.splitlines() if each.startswith("import time:")}
