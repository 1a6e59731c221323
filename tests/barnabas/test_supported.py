"""A system or a Python that is not supported is a sentence, and commands for any cluster run wherever they can."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from barnabas.supported import NEWEST, OLDEST, python_refusal, system_refusal

ROOT = Path(__file__).parents[2]
PRETEND = """
import os, runpy, signal, sys
sys.platform, version = {system!r}, {version!r}
if version:
    sys.version_info = version
if sys.platform == "win32":
    os.name = "nt"
    del signal.pthread_sigmask
sys.argv = ["barnabas", *{arguments!r}]
"""
COMMAND = f"{PRETEND}\nfrom barnabas.cli import main\nmain()\n"
EMBEDDED = f"{PRETEND}\nfrom barnabas import EmbeddedBroker\nEmbeddedBroker().start()\n"


def run(
    code: str, *arguments: str, system: str = "linux", version: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    text = code.format(system=system, version=version, arguments=arguments)
    return subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "system", "version", "told"),
    [
        (["start"], "darwin", (), "barnabas: `barnabas start` runs on Linux; this is Darwin"),
        (["dump-log", "--help"], "darwin", (), "barnabas: `barnabas dump-log` runs on Linux; this is Darwin"),
        (["start"], "win32", (), "barnabas runs on Linux; this is Windows"),
        (["topics", "list"], "win32", (), "barnabas runs on Linux; this is Windows"),
        (["start"], "linux", (3, 10, 4), "barnabas runs on Python 3.11 to 3.14; this is 3.10"),
        (["--version"], "linux", (3, 15, 0), "barnabas runs on Python 3.11 to 3.14; this is 3.15"),
    ],
)
def test_what_is_not_supported_is_a_sentence(
    arguments: list[str], system: str, version: tuple[int, ...], told: str
) -> None:
    done = run(COMMAND, *arguments, system=system, version=version)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{told}\n")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["topics", "list", "--help"]])
def test_commands_for_any_cluster_run_elsewhere(arguments: list[str]) -> None:
    done = run(COMMAND, *arguments, system="darwin")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_embedded_broker_says_so_too() -> None:
    done = run(EMBEDDED, system="darwin")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == "barnabas.embedded.BrokerStartError: barnabas runs on Linux; this is Darwin"


def test_here_it_runs() -> None:
    assert system_refusal(sys.platform) is None
    assert python_refusal(sys.version_info) is None


def test_every_place_names_the_same_versions() -> None:
    versions = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={versions[0]},<3.{NEWEST[1] + 1}"
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python :: 3." in each]
    assert named == versions
    makefile = (ROOT / "Makefile").read_text()
    assert f"{OLDEST} <= sys.version_info[:2] <= {NEWEST}" in makefile
    searched = re.search(r"for name in (.*) python3;", makefile)
    assert searched is not None and searched[1].split() == [f"python{version}" for version in versions]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    quoted = ", ".join(f'"{version}"' for version in versions)
    assert f"python: [{quoted}]" in workflow
    in_words = f"{', '.join(versions[:-1])} or {versions[-1]}"
    for page in ("README.md", "CONTRIBUTING.md", "Makefile"):
        assert f"Python {in_words}" in (ROOT / page).read_text(), page
