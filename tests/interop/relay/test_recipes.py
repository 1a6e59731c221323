"""The recipes of docs/recipes.md, run as they stand there, in their order, with a relay beside the broker.

On brokers of ours, and of Apache Kafka. Only the address changes. What each command shows stands in SHOWN; a command that shows
what comes a moment later is repeated until it does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.conftest import need_java
from tests.oracle.barnabas import REPOSITORY, Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PAGE = REPOSITORY / "docs" / "recipes.md"
ADDRESS = "localhost:9092"
PATIENCE_S = 60.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
SHOWN = {
    "barnabas relay rules add reminders-later": r"reminders",
    "barnabas consume reminders": r"tea is ready",
    "barnabas delayed list": r"reminders-later",
    "barnabas delayed show": r"call the bank",
    "barnabas delayed cancel": r"cancelled",
    "barnabas topics create": r"created",
    "barnabas relay rules add billing-retry": r"billing-again",
    "barnabas dlq list billing-dead": r"the card was refused",
    "barnabas dlq list billing-dead --by reason": r"the card was refused",
    "barnabas dlq requeue": r"1",
    "barnabas dlq purge": r"",
    "barnabas dlq list barnabas-relay-dead": r"expired",
    "echo 'EUR 1.08' | barnabas produce": r"",
    "barnabas trace --key unpaid": r"billing-dead",
    "barnabas trace --header barnabas-id=bank": r'"reminders-later"',
}


class Block(NamedTuple):
    language: str
    text: str


def blocks() -> list[Block]:
    """The examples of the page that are run; `sh ours` is for brokers of this project."""
    found = re.findall(r"^```([a-z ]+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(language, text) for language, text in found]


@contextmanager
def relay_beside(bootstrap: str) -> Iterator[None]:
    command = [sys.executable, "-m", "barnabas.cli", "relay", "--bootstrap-server", bootstrap]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()  # it says that it has begun
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


class Reader:
    """Somebody who follows the page in a folder."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        script = folder / "barnabas"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m barnabas.cli "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        profiles = folder / "barnabas-profiles" / "barnabas"
        profiles.mkdir(parents=True)
        (profiles / "here.properties").write_text(f"bootstrap.servers={bootstrap}\n", encoding="utf-8")
        self._variables = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(folder / "barnabas-profiles"),
            "BARNABAS_PROFILE": "here",
        }

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self._folder, env=self._variables, capture_output=True, text=True, timeout=120, check=False
        )

    def python(self, text: str) -> None:
        done = self.run([sys.executable, "-c", text.replace(ADDRESS, self._bootstrap)])
        assert done.returncode == 0, done.stderr

    def shell(self, line: str) -> None:
        shown = max((each for each in SHOWN if line.startswith(each)), key=len)
        outputs: list[str] = []

        def is_shown() -> bool:
            done = self.run(["bash", "-e", "-o", "pipefail", "-c", line])
            outputs.append(f"{done.stdout}{done.stderr}")
            is_so = done.returncode == 0 and re.search(SHOWN[shown], done.stdout + done.stderr) is not None
            assert is_so or "--execute" not in line, outputs[-1]
            return is_so

        assert wait_until(is_shown, PATIENCE_S), f"{line}: {outputs[-1]}"


@contextmanager
def broker(kind: str) -> Iterator[str]:
    if kind == "barnabas":
        with Barnabas(SETTINGS) as ours:
            yield ours.bootstrap_servers
    else:
        need_java()
        with ApacheKafka(SETTINGS) as kafka:
            yield kafka.bootstrap_servers


@pytest.mark.parametrize("kind", ["barnabas", "kafka"])
def test_the_recipes(kind: str, tmp_path: Path) -> None:
    with broker(kind) as bootstrap, relay_beside(bootstrap):
        reader = Reader(bootstrap, tmp_path)
        for block in blocks():
            if block.language == "python":
                reader.python(block.text)
            elif block.language == "sh" or (block.language == "sh ours" and kind == "barnabas"):
                for line in block.text.splitlines():
                    reader.shell(line)


def test_each_recipe_is_run() -> None:
    lines = [line for block in blocks() if block.language.startswith("sh") for line in block.text.splitlines()]
    assert {each for each in SHOWN if not any(line.startswith(each) for line in lines)} == set()
    assert all(any(line.startswith(each) for each in SHOWN) for line in lines)
    assert {block.language for block in blocks()} == {"python", "sh", "sh ours"}
