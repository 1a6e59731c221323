"""One line of standard error that says what a command does or waits for; any thread may write it.

Rules: on a terminal the line is written over and over, and removed before anything else is printed; its printer calls
`clear`. Elsewhere progress is a line every few seconds, and a state is a line that is not repeated.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from runtime.texts import visible

if TYPE_CHECKING:
    from runtime.clock import Clock

TERMINAL_PAUSE_MS = 200
"""Between two states of the line on a terminal."""
PLAIN_PAUSE_MS = 5_000
"""Between two lines of progress elsewhere."""
REPEATED_AFTER_MS = 60_000
"""After this time a state is printed once more, for readers of a log."""
_UP, _CLEAR_BELOW = "\x1b[A", "\r\x1b[J"
_USUAL_COLUMNS = 80


class StatusLine:
    """Of this process. Safe to use from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Forget what was shown: another command begins."""
        self._shown = ""
        self._state = ""
        self._state_ms = 0
        self._begun_ms = self._clock.monotonic_ms()
        self._next_ms = self._begun_ms + (TERMINAL_PAUSE_MS if self.is_terminal else PLAIN_PAUSE_MS)

    @property
    def is_terminal(self) -> bool:
        return is_terminal(sys.stderr)

    @property
    def is_due(self) -> bool:
        """Return whether progress may be shown again."""
        return self._clock.monotonic_ms() >= self._next_ms

    def show(self, text: str) -> None:
        """Show progress, when it is due."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if now_ms < self._next_ms:
                return
            on_terminal = self.is_terminal
            self._next_ms = now_ms + (TERMINAL_PAUSE_MS if on_terminal else PLAIN_PAUSE_MS)
            self._write(text, over=on_terminal)

    def tell(self, text: str) -> None:
        """Show a state at once, such as what is waited for; elsewhere than on a terminal only when it is another one."""
        text = visible(text)
        with self._lock:
            if self.is_terminal:
                if text != self._shown:
                    self._write(text, over=True)
                return
            now_ms = self._clock.monotonic_ms()
            if text != self._state or now_ms - self._state_ms >= REPEATED_AFTER_MS:
                self._state, self._state_ms = text, now_ms
                self._write(text, over=False)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._erase()
            self._state = ""
            self._write(text, over=False)

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        if self._shown:
            with self._lock:
                self._erase()

    def _erase(self) -> None:
        if self._shown:
            sys.stderr.write(self._erasure())
            sys.stderr.flush()
            self._shown = ""

    def _erasure(self) -> str:
        """Return what removes the line, also where it was longer than the terminal is wide."""
        return _UP * ((len(self._shown) - 1) // _columns(sys.stderr)) + _CLEAR_BELOW

    def _write(self, text: str, *, over: bool) -> None:
        if sys.stderr is None:
            return
        text = visible(text)
        sys.stderr.write(f"{self._erasure()}{text}" if over else f"{text}\n")
        sys.stderr.flush()
        if over:
            self._shown = text


def is_terminal(stream: object) -> bool:
    """Return whether an output goes to a terminal; a closed one (None) does not."""
    return stream is not None and bool(getattr(stream, "isatty", lambda: False)())


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS
