"""docs/settings.md is what the tables say."""

from __future__ import annotations

from pathlib import Path

from config.document import page


def test_the_page_is_current() -> None:
    assert (Path(__file__).parents[2] / "docs" / "settings.md").read_text() == page(), "make docs"
