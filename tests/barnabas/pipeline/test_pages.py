"""The commands and options in docs/spark.md and docs/spark-source.md are those that there are; nothing is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.pipeline import JOBS, command
from barnabas.spark.client.client_options import is_known
from barnabas.spark.reading.read_options import KNOWN as READ

DOCS = Path(__file__).parents[3] / "docs"
PAGE, SOURCE = ((DOCS / name).read_text(encoding="utf-8") for name in ("spark.md", "spark-source.md"))
COMMANDS = re.findall(r"^ {4}(?:[A-Z_]+=\S+ )*barnabas pipeline ([a-z].*)$", PAGE.replace("\\\n", " "), re.MULTILINE)
WHOLE = [line for line in COMMANDS if "..." not in line]
OTHERS = {"--option", "--packages", "--master", "--topic", "--override"}
"""Options of other commands."""


def test_the_page_has_a_command_of_every_job() -> None:
    assert {line.split()[0] for line in WHOLE} == set(JOBS)


@pytest.mark.parametrize("line", WHOLE)
def test_a_command_of_the_page_is_valid(line: str, tmp_path: Path) -> None:
    name, *arguments = shlex.split(line.rstrip(" &").replace("/var/lib/barnabas/data", str(tmp_path)))
    command.load(name).parse(arguments)


def test_every_option_that_the_page_names_exists() -> None:
    flags = {flag for name in JOBS for each in command.load(name).command().params for flag in each.opts} | {"--help"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert named - flags - OTHERS == set()


def test_every_option_of_the_source_is_in_its_page() -> None:
    for name in READ:
        assert f"`{name}`" in SOURCE, name
    there = SOURCE.partition("## What it does not do")[0]
    for name in re.findall(r"[`\"](kafka\.[a-z.]+)[`\"]", there):
        assert is_known(name), name


def test_every_picture_of_the_page_is_there() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE)
    assert pictures
    for picture in pictures:
        text = (DOCS / picture).read_text(encoding="utf-8")
        assert text.startswith("<svg") and "</svg>" in text


@pytest.mark.parametrize("text", [PAGE, SOURCE], ids=["spark.md", "spark-source.md"])
def test_python_in_the_pages_compiles(text: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        compile(block, "page", "exec")
    assert blocks or text is PAGE
