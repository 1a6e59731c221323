"""Looking into the folders of a broker that runs: files and folders may go while they are listed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def paths(folder: Path, pattern: str) -> list[Path]:
    """What fits at one moment, in order. (`Path.glob` ends with an error for a folder that goes before it is looked into.)"""
    while True:
        with suppress(FileNotFoundError):
            return sorted(folder.glob(pattern))
