"""Which lines of a log are left out because one of their kind was written a moment ago.

Rules: a trouble that hits every request gets one line in a while, with the count of those that were left out. There are few
kinds, and none has a name in it that a client made up.
Source: ours.
"""

from __future__ import annotations

from collections.abc import Hashable

from runtime.clock import Clock

QUIET_MS = 10_000


class RareLines:
    def __init__(self, clock: Clock, quiet_ms: int = QUIET_MS) -> None:
        self._clock = clock
        self._quiet_ms = quiet_ms
        self._written: dict[Hashable, tuple[int, int]] = {}
        """By kind: when the last line was written, and how many were left out since."""

    def left_out(self, kind: Hashable) -> int | None:
        """Return how many lines of `kind` were left out before this one; None when it is to be left out itself."""
        now_ms = self._clock.monotonic_ms()
        written_ms, count = self._written.get(kind, (now_ms - self._quiet_ms, 0))
        if now_ms - written_ms < self._quiet_ms:
            self._written[kind] = written_ms, count + 1
            return None
        self._written[kind] = now_ms, 0
        return count
