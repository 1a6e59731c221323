"""How far a long command over files has come: one line on standard error that is written again and again.

Rules: only on a terminal; elsewhere nothing is written at all. At most one line in SHORTEST_PAUSE_MS. Whoever prints something
else calls `clear` first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from broker.commands.output import is_terminal
from runtime.texts import size_text

if TYPE_CHECKING:
    from runtime.clock import Clock

SHORTEST_PAUSE_MS = 200
_BEGIN_LINE = "\r\x1b[K"


class ProgressLine:
    """Of one command. `total_files` may be unknown (None)."""

    def __init__(self, clock: Clock, total_files: int | None = None, *, is_shown: bool | None = None) -> None:
        """`is_shown` says otherwise than that a terminal decides."""
        self._clock = clock
        self._total_files = total_files
        self._is_shown = is_terminal(sys.stderr) if is_shown is None else is_shown
        self._begun_ms = clock.monotonic_ms()
        self._next_ms = self._begun_ms + SHORTEST_PAUSE_MS
        self._is_written = False

    def show(self, files: int, size_bytes: int) -> None:
        """Write how many files and bytes were read."""
        if not self._is_shown:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + SHORTEST_PAUSE_MS
        sys.stderr.write(_BEGIN_LINE + self.text(files, size_bytes, now_ms - self._begun_ms))
        sys.stderr.flush()
        self._is_written = True

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        if self._is_written:
            sys.stderr.write(_BEGIN_LINE)
            sys.stderr.flush()
            self._is_written = False

    def text(self, files: int, size_bytes: int, passed_ms: int) -> str:
        total = "" if self._total_files is None else f" of {self._total_files}"
        rate = size_bytes * 1000 // max(passed_ms, 1)
        return f"{files}{total} files, {size_text(size_bytes)}, {size_text(rate)}/s"
