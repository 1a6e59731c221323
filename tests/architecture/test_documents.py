"""The pages of the architecture and of decisions name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_log_lines import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [ROOT / "docs" / "architecture.md", *(page for page in [ROOT / "CONTRIBUTING.md"] if page.exists())]
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]*(?:\.py)?|[a-z_]+(?:/[a-z_]+)+|[a-z_0-9/*]+\.py)`")
MODULE = re.compile(rf"`((?:{'|'.join(set(PACKAGES) - {'barnabas'})})(?:\.[a-z_]+)+)`")


def absent(text: str) -> list[str]:
    """Return the paths and modules of the product that a page names and that are not there."""
    paths = NAMED.findall(text) + [name.replace(".", "/") + "*" for name in MODULE.findall(text)]
    return [path for path in paths if not list(ROOT.glob(path.removesuffix("/")))]


@pytest.mark.parametrize("page", PAGES + DECISIONS, ids=lambda page: page.name)
def test_files_and_folders_that_a_page_names_are_there(page: Path) -> None:
    assert absent(page.read_text(encoding="utf-8")) == []


def test_a_file_that_is_not_there_is_found() -> None:
    text = "`runtime/clock.py`, `clock.py`, `runtime/sundial.py`, `runtime/c*.py`, `runtime.clock`, `runtime.sundial`"
    assert absent(text) == ["clock.py", "runtime/sundial.py", "runtime/sundial*"]


def test_each_walk_names_its_files_in_order() -> None:
    """Every step but the waiting ones names a module of the server."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = re.split(r"^### ", text.split("## Nine walks")[1].split("\n## ")[0], flags=re.MULTILINE)[1:]
    titles = [
        "Produce with acks=all",
        "Fetch",
        "Heartbeat",
        "ConsumerGroupHeartbeat",
        "ShareGroupHeartbeat",
        "ShareFetch",
        "A transaction",
        "CreateTopics",
        "A command of administration",
    ]
    assert [walk.splitlines()[0] for walk in walks] == titles
    for walk in walks:
        steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
        assert len(steps) >= 4
        assert all(NAMED.search(step) for step in steps), walk.splitlines()[0]
