"""The pages name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "architecture.md", *(page for page in [ROOT / "CONTRIBUTING.md"] if page.exists())]
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]*(?:\.py)?|[a-z_]+(?:/[a-z_]+)+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_folders_that_a_page_names_are_there(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_walk_names_its_files_in_order() -> None:
    """Every step but the waiting ones names a module of the server."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = re.split(r"^### ", text.split("## Five walks")[1].split("\n## ")[0], flags=re.MULTILINE)[1:]
    titles = ["Produce with acks=all", "Fetch", "Heartbeat", "A transaction", "CreateTopics"]
    assert [walk.splitlines()[0] for walk in walks] == titles
    for walk in walks:
        steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
        assert len(steps) >= 4
        assert all(NAMED.search(step) for step in steps), walk.splitlines()[0]
