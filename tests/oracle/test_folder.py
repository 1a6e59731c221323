"""The folder of a broker that runs changes while a test looks into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.folder import paths


def test_a_folder_may_go_before_it_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted, kept = tmp_path / "t-0-delete", tmp_path / "t-1"
    deleted.mkdir()
    kept.mkdir()
    (kept / "0.log").touch()
    scandir = os.scandir

    def remove_first(path: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(path) == deleted and deleted.exists():
            deleted.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_first)
    assert paths(tmp_path, "*/*.log") == [kept / "0.log"]
    assert not deleted.exists(), "it went meanwhile"
