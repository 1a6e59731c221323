"""How long to wait before a process that has ended is started again. Pure.

Rules: who ran for a while is started at once. Who ends soon after its start, again and again, waits twice as long each time, up
to a limit: a process that cannot run must not take the cores of those that do.
"""

from __future__ import annotations

LIVED_MS = 30_000
FIRST_PAUSE_MS = 500
LONGEST_PAUSE_MS = 30_000


class RestartPauses:
    """Of one process."""

    def __init__(self) -> None:
        self._short_lives = 0

    def after(self, lived_ms: int) -> int:
        """Return the pause before the next start, in milliseconds, after a life of `lived_ms`."""
        if lived_ms >= LIVED_MS:
            self._short_lives = 0
            return 0
        self._short_lives += 1
        if self._short_lives == 1:
            return 0
        return int(min(FIRST_PAUSE_MS * 2 ** (self._short_lives - 2), LONGEST_PAUSE_MS))
