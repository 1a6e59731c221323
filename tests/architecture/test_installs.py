"""No page, message or script of ours installs `barnabas` from a package index, where the name is not ours.

It is installed from a clone (`pip install ".[cli]"`) or from a wheel that was built there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.start_options import VERSION

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (
    "",
    ".cfg",
    ".html",
    ".in",
    ".ini",
    ".json",
    ".md",
    ".properties",
    ".py",
    ".service",
    ".sh",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
)
INSTALLER = re.compile(
    r"\b(?:pip[0-9.]*\s+(?:install|download|wheel)|uv\s+(?:add|pip|tool)|uvx|pipx\s+\w+|poetry\s+add|pdm\s+add|(?:conda|mamba)\s+install)\b(.*)"
)
WORD = re.compile(r"barnabas(?:\\?\[[a-z,]*\\?\])?(?:[=<>~!@].*)?", re.IGNORECASE)
FROM = re.compile(r"--from\s+[./]\S+\s+barnabas\b")
"""Which says what is installed, and then which command of it runs."""
WITH_EXTRA = re.compile(r"\bbarnabas\\?\[(?:cli|spark|web|dev|[a-z]+,)")


def complaints(text: str) -> list[str]:
    """The lines of a text that install the name, or write it as an index's requirement."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = [
            word for said in INSTALLER.findall(FROM.sub("", line)) for word in re.split(r"[#`;|&]", said)[0].split()
        ]
        if WITH_EXTRA.search(line) or any(WORD.fullmatch(word.strip("'\"`(),;:.\\")) for word in words):
            found.append(line)
    return found


def files() -> list[Path]:
    roots = [path for path in ROOT.iterdir() if not path.name.startswith(".") or path.name == ".ci"]
    found = [file for root in roots for file in (root.rglob("*") if root.is_dir() else [root])]
    made = {"__pycache__", "node_modules", "build", "dist", "data"}
    return [
        file
        for file in found
        if file.is_file()
        and file.suffix in SUFFIXES
        and not made & set(file.parts)
        and file != Path(__file__).resolve()
    ]


def test_nothing_installs_the_name_from_an_index() -> None:
    read = {file: file.read_text(encoding="utf-8", errors="replace") for file in files()}
    assert {"README.md", "Dockerfile", "Makefile", "barnabas.service"} <= {file.name for file in read}
    assert [f"{file.relative_to(ROOT)}: {line}" for file, text in read.items() for line in complaints(text)] == []


def test_a_wheel_on_a_page_has_the_version_of_the_package() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = [
        found for page in pages for found in re.findall(r"barnabas-([0-9.]+)-py3", page.read_text(encoding="utf-8"))
    ]
    assert set(named) == {VERSION}


@pytest.mark.parametrize(
    "line",
    [
        'pip install "barnabas[cli]"',
        "pip install barnabas",
        "python -m pip install --upgrade barnabas==0.1.0",
        "/opt/x/bin/pip install -U 'barnabas>=1'",
        "uv pip install barnabas",
        "uvx barnabas",
        "uvx --from barnabas barnabas start",
        "pipx install barnabas",
        "the environment that has `barnabas[spark]`",
        r"match=r'pip install \"barnabas\[spark\]\"'",
    ],
)
def test_an_index_install_is_found(line: str) -> None:
    assert complaints(line) == [line]


@pytest.mark.parametrize(
    "line",
    [
        'pip install ".[cli]"',
        "pip install .  # then barnabas is there",
        'pip install "./barnabas-0.1.0-py3-none-any.whl[cli]"',
        "/opt/barnabas/bin/pip install --upgrade '.[cli]'",
        "pip install confluent-kafka",
        "uvx --from ./barnabas-0.1.0-py3-none-any.whl barnabas start",
    ],
)
def test_other_installs_are_not(line: str) -> None:
    assert complaints(line) == []
