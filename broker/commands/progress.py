"""How far a long command over files has come, on the line of `runtime.status_line`. Whoever prints something else calls `clear`
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.status_line import StatusLine
from runtime.texts import count_text, size_text

if TYPE_CHECKING:
    from runtime.clock import Clock


class ProgressLine:
    """Of one command. `total_files` may be unknown (None); with `is_shown` False nothing is written."""

    def __init__(self, clock: Clock, total_files: int | None = None, *, is_shown: bool = True) -> None:
        self._clock = clock
        self._total_files = total_files
        self._is_shown = is_shown
        self._begun_ms = clock.monotonic_ms()
        self._line = StatusLine(clock)

    def show(self, files: int, size_bytes: int) -> None:
        """Write how many files and bytes were read."""
        if self._is_shown and self._line.is_due:
            self._line.show(self.text(files, size_bytes, self._clock.monotonic_ms() - self._begun_ms))

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        self._line.clear()

    def text(self, files: int, size_bytes: int, passed_ms: int) -> str:
        count = count_text(files, "file") if self._total_files is None else f"{files} of {self._total_files} files"
        rate = size_bytes * 1000 // max(passed_ms, 1)
        return f"{count}, {size_text(size_bytes)}, {size_text(rate)}/s"
