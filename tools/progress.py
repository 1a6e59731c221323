"""How far a long command has come: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from runtime.clock import Clock


class Progress:
    """Counts towards `total`; `close` removes the bar."""

    def __init__(self, what: str, total: int, clock: Clock) -> None:
        self._clock = clock
        self._started_ms = clock.monotonic_ms()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  only a terminal needs it
            from rich.progress import Progress as Bar  # noqa: PLC0415

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=total)
            self._bar.start()

    @property
    def is_shown(self) -> bool:
        """Return whether somebody sees the bar."""
        return self._bar is not None

    def show(self, done: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def rate_text(self, done: int) -> str:
        """Return how fast it was."""
        elapsed_ms = max(self._clock.monotonic_ms() - self._started_ms, 1)
        return f"{done * 1000 // elapsed_ms} records/s"
