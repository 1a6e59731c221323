"""Man pages, and completions for a shell: of every command, the server's too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import click
import pytest

from barnabas.commands import root
from runtime.command_line.man_pages import man_pages
from tests.barnabas.installing import ROOT
from tests.tools.command_table import ROWS

KNOWN = (".TH ", ".SH ", ".PP", ".B ", ".TP")
PAGES_WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({modules!r}))
from barnabas.commands import root
from runtime.command_line.man_pages import man_pages
assert "barnabas-start.1" in man_pages(root, "1")
"""
ESCAPES = re.compile(r"\\(?:f[BIP]|-|e|&)")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return man_pages(root, "1.2.3")


def test_every_command_has_a_page_and_every_page_is_named_by_another(pages: dict[str, str]) -> None:
    commands = [f"barnabas-{words.replace(' ', '-')}" for words in ROWS]
    commands += [
        f"barnabas-{name}" for name in ("start", "settings", "dump-log", "log-find", "users-create", "pipeline")
    ]
    assert {f"{name}.1" for name in commands} <= pages.keys()
    for name in pages.keys() - {"barnabas.1"}:
        above = pages[name].rpartition("\\fB")[2].partition("\\fP")[0]
        assert name.startswith(f"{above}-")
        assert f"\\fB{name.removesuffix('.1')}\\fP(1)" in pages[f"{above}.1"]


def test_a_page_says_what_the_help_says(pages: dict[str, str]) -> None:
    page = pages["barnabas-topics-create.1"]
    assert page.startswith('.TH "BARNABAS-TOPICS-CREATE" "1" "" "1.2.3"')
    assert "\\fB\\-\\-partitions\\fP INTEGER" in page.replace(" RANGE", "")
    assert "a topic that is there is no error" in page
    assert "\nprint the banner" not in pages["barnabas-start.1"]
    assert "do not print the banner" in pages["barnabas-start.1"]
    assert "control-fd" not in pages["barnabas-start.1"], "what is for other programs is in no help"
    assert "SCRAM-SHA-256|SCRAM-SHA-512" in pages["barnabas-users-create.1"].replace("\\-", "-")


def test_pages_need_no_more_than_the_build_installs() -> None:
    """Which is in an environment of its own: without what else the broker needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = [re.split(r"[^\w-]", line)[0].lower() for line in project["project"]["dependencies"]]
    absent = set(names) - {re.split(r"[^\w-]", line)[0] for line in project["build-system"]["requires"]}
    modules = [module for module, of in packages_distributions().items() if absent & {each.lower() for each in of}]
    assert {"cryptography", "lz4"} <= set(modules)
    done = subprocess.run(
        [sys.executable, "-c", PAGES_WITHOUT.format(modules=modules)], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_pages_are_well_formed(pages: dict[str, str]) -> None:
    """No text is taken for a command of roff."""
    for name, page in pages.items():
        for line in page.splitlines():
            assert not line.startswith(".") or line.startswith(KNOWN), (name, line)
            assert not line.startswith("'"), (name, line)
        assert "\\" not in ESCAPES.sub("", page), name


def test_texts_that_look_like_roff_are_escaped() -> None:
    group = click.Group("barnabas", help=".hidden\n\n'quoted' \\n")
    text = man_pages(group, "1")["barnabas.1"]
    assert "\\&.hidden\n.PP\n\\&'quoted' \\en\n" in text


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("", {"topics", "balance", "start", "users", "log"}),
        ("sta", {"start"}),
        ("topics crea", {"create"}),
        ("start --log", {"--log-level", "--log-format"}),
        ("users ", {"create", "list", "describe", "delete"}),
        ("users create zoe --mechanism SCRAM-SHA-5", {"SCRAM-SHA-512"}),
    ],
)
def test_a_shell_gets_completions(words: str, offered: set[str]) -> None:
    line = f"barnabas {words}"
    asked = {"_BARNABAS_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.cli"], cwd=ROOT, env=os.environ | asked, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    found = {each.partition(",")[2] for each in done.stdout.splitlines()}
    assert offered <= found if not words or words.endswith(" ") else offered == found, done.stderr
