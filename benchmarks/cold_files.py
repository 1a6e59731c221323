"""Files read from the disk again and again: what was read of them is dropped from the page cache right behind the reader.

Rules: Linux. Pages go a little at a time, as a kernel that needs memory takes them: dropping all of 400 MB in one call keeps a
core for 10 to 20 ms, and whoever is queued there waits. A call drops from the start of the file on, where hardly anything is
left: pages that the kernel has joined (large folios) stay when a call's range cuts them, and the next one has them whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class ColdFiles:
    """One after another, as if they were one; begins with none of it in memory."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._parts = [(os.open(path, os.O_RDONLY), path.stat().st_size) for path in paths]
        self.size_bytes = sum(size for _, size in self._parts)
        for descriptor, _ in self._parts:
            os.fdatasync(descriptor)  # a page that is not on the disk yet stays
        self.drop_all()

    def drop_all(self) -> None:
        """What a pass has left, and everything at first."""
        self.drop_up_to(self.size_bytes)

    def drop_up_to(self, position: int) -> None:
        """Everything before `position` was read."""
        for descriptor, size in self._parts:
            if position <= 0:
                break
            os.posix_fadvise(descriptor, 0, min(size, position), os.POSIX_FADV_DONTNEED)
            position -= size
