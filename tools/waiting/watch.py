"""Shows why a command waits: a thread watches what waits, asks for the cause, and shows it on the status line.

    with watch.over(find):      what is inside may wait; `find` is called when nothing has moved for a moment
        ...
        watch.moved()           something has come

Rules: what waits for SHOWN_AFTER_MS has its cause asked, and again and again while it waits; a cause answers within a second or
so, so that the line is there within two. Of waits within each other the innermost counts. The command's own thread waits for a
cause only where a connection was lost until the end: whether it has come back is shown, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.clock import Clock
    from runtime.status_line import StatusLine

SHOWN_AFTER_MS = 700
"""What is over sooner is no wait."""
ASKED_EVERY_MS = 1_000
"""While something is wrong."""
CHECKED_EVERY_S = 0.1
_MOVED_EVERY_MS = 100
_LAST_MOMENT_S = 0.5


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something waits. With `is_lost` the cause itself says when a connection has come back. A text that `is_vague` says no
    more than that there is no answer: it is shown where it can be removed."""

    text: str
    why: str | None = None
    """The cause alone, for an error that says only that the time was over; None where nothing is wrong, or nothing known."""
    is_lost: bool = False
    is_vague: bool = False


FindCause = Callable[[], Cause | None]
"""Returns None while it knows of none. It is called by the thread of the watch, never twice at once."""


@dataclass(slots=True)
class _Wait:
    find: FindCause
    since_ms: int
    shown: Cause | None = None
    moves: int = 0
    has_lost: bool = False
    """Whether a connection was lost and its return has not been checked."""


class Watch:
    """Of one command. Without `has_thread` its owner calls `check`."""

    def __init__(self, clock: Clock, line: StatusLine, *, has_thread: bool = True) -> None:
        self._clock = clock
        self._line = line
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._waits: list[_Wait] = []
        self._next_ms = 0
        self._moved_ms = 0
        self._is_shown = False
        self._is_hurried = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_thread = has_thread
        self.last_why: str | None = None
        """The cause that was shown last, when nothing has moved since."""

    @contextmanager
    def over(self, find: FindCause) -> Iterator[None]:
        """Watch what is done inside."""
        wait = _Wait(find, self._clock.monotonic_ms())
        with self._lock:
            self._waits.append(wait)
            self._next_ms = 0
        if self._thread is None and self._has_thread:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        try:
            yield
            self.moved()  # what it waited for has come
            if wait.has_lost:
                with self._asking:
                    wait.find()
        finally:
            with self._lock:
                self._waits.remove(wait)
                self._next_ms = 0
                if self._waits:
                    self._waits[-1].since_ms = self._clock.monotonic_ms()
            self._line.clear()

    def moved(self) -> None:
        """Note that what is watched has gone on. It may be called for each record."""
        now_ms = self._clock.monotonic_ms()
        if not self._is_shown and now_ms - self._moved_ms < _MOVED_EVERY_MS:
            return
        self._moved_ms = now_ms
        with self._lock:
            if not self._waits:
                return
            wait = self._waits[-1]
            shown, wait.shown = wait.shown, None
            wait.since_ms = now_ms
            wait.moves += 1
            self._is_shown, self.last_why = False, None
            if wait.has_lost:
                self._is_hurried = True
        if shown is not None:
            self._line.clear()

    def hurry(self) -> None:
        """Have the cause asked at once: something has gone wrong."""
        self._is_hurried = True

    def close(self) -> bool:
        """End; return whether no cause is being asked any more. One that is asked still is not shown."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_LAST_MOMENT_S)
        self._line.clear()
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.wait(CHECKED_EVERY_S):
            self.check()

    def check(self) -> None:
        """Ask for the cause, and show it, when that is due."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            wait = self._waits[-1] if self._waits else None
            if wait is None:
                return
            is_due = now_ms - wait.since_ms >= SHOWN_AFTER_MS and now_ms >= self._next_ms
            if not (is_due or self._is_hurried):
                return
            self._is_hurried = False
            moves = wait.moves
        with self._asking:
            cause = wait.find()
        with self._lock:
            if is_due:
                self._next_ms = self._clock.monotonic_ms() + ASKED_EVERY_MS
            wait.has_lost = cause is not None and cause.is_lost
            if not is_due and not wait.has_lost:
                return
            if self._ended.is_set() or not self._waits or self._waits[-1] is not wait or wait.moves != moves:
                return
            wait.shown, self._is_shown = cause, True
            self.last_why = None if cause is None else cause.why
        self._show(cause)

    def _show(self, cause: Cause | None) -> None:
        if cause is None:
            self._line.clear()
        elif self._line.is_terminal or not cause.is_vague:
            self._line.tell(cause.text)
