"""The page of everyday questions: its commands are run as they stand there, and print what it shows.

Only the address changes: `localhost:9092` is where the broker under test happens to be. `...` in what the page shows stands for
anything; standard error comes behind standard output.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.embedded import EmbeddedBroker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
# (the command, what it prints)
EXAMPLES = [
    (example.partition("\n")[0].removeprefix("$ "), example.partition("\n")[2])
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for example in re.split(r"^(?=\$ )", block, flags=re.MULTILINE)
    if example
]
CHECK = doctest.OutputChecker().check_output
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_page(bootstrap_servers: str, tmp_path: Path, lacking: str | None = None) -> None:
    """Run all commands against a broker that is empty and creates no topics by itself, but those about what it is `lacking`."""
    assert len(EXAMPLES) > 25
    script = tmp_path / "barnabas"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m barnabas.cli "$@"\n')
    script.chmod(0o755)
    profiles = tmp_path / "config" / "barnabas"
    profiles.mkdir(parents=True)
    (profiles / "page.properties").write_text(f"bootstrap.servers={bootstrap_servers}\n")
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "BARNABAS_PROFILE": "page",
    }
    for command, shown in EXAMPLES:
        if lacking is not None and lacking in command:
            continue
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, env=environment, text=True,
            capture_output=True, timeout=240, check=False,
        )  # fmt: skip
        # What is said beside the result comes first for a description, last for the rest.
        printed = (done.stdout + done.stderr, done.stderr + done.stdout)
        assert done.returncode == 0, f"{command}\n{printed[0]}"
        assert any(CHECK(shown, text, FLAGS) for text in printed), f"{command}\n{printed[0]}"


@pytest.mark.timeout(600)  # dozens of processes, one after the other
def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    with EmbeddedBroker(settings={"auto.create.topics.enable": False}) as broker:
        run_page(broker.bootstrap_servers, tmp_path)


def test_every_command_of_the_page_exists() -> None:
    """Also those in the text, which are not run."""
    from barnabas.commands import root

    for words in re.findall(r"`barnabas ([a-z]+)(?: ([a-z][a-z-]*))?", PAGE):
        if words[0] in ("log", "pipeline", "start", "settings", "users"):
            continue
        group = root.get_command(None, words[0])  # type: ignore[arg-type]
        assert group is not None, words
        inner = getattr(group, "commands", {})
        assert not inner or words[1] in inner, words
