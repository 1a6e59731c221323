"""Files read from the disk again and again: what was read of them is dropped from the page cache right behind the reader.

Rules: Linux. Pages go in pieces, as a kernel that needs memory takes them: dropping all of 400 MB in one call keeps a
core for 10 to 20 ms, and whoever is queued there waits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_PIECE_BYTES = 1 << 20


class ColdFiles:
    """One after another, as if they were one; begins with none of it in memory."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._parts = [(os.open(path, os.O_RDONLY), path.stat().st_size) for path in paths]
        self.size_bytes = sum(size for _, size in self._parts)
        self._dropped_bytes = 0
        for descriptor, _ in self._parts:
            os.fdatasync(descriptor)  # a page that is not on the disk yet stays
        self.begin_again()

    def begin_again(self) -> None:
        """What the last pass has left, and everything at first."""
        self.drop_up_to(self.size_bytes)
        self._dropped_bytes = 0

    def drop_up_to(self, position: int) -> None:
        """Everything before `position` was read."""
        begins = 0
        for descriptor, size in self._parts:
            while begins <= self._dropped_bytes < min(begins + size, position):
                piece = min(_PIECE_BYTES, min(begins + size, position) - self._dropped_bytes)
                os.posix_fadvise(descriptor, self._dropped_bytes - begins, piece, os.POSIX_FADV_DONTNEED)
                self._dropped_bytes += piece
            begins += size
