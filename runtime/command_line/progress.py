"""How far a long command has come, with its rate and the time that is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.command_line.output import STATUS
from runtime.texts import bar

if TYPE_CHECKING:
    from runtime.clock import Clock


class Progress:
    """Counts towards `total`, None where nobody knows it; `close` removes the line."""

    def __init__(
        self, what: str, total: int | None, clock: Clock, form: Callable[[float], str] = "{:.0f}".format
    ) -> None:
        """`form` makes the text of an amount."""
        self._what = what
        self._total = total
        self._clock = clock
        self._form = form
        self._started_ms = clock.monotonic_ms()

    def show(self, done: int, more: str = "") -> None:
        if STATUS.is_due:
            STATUS.show(self.text(done, with_bar=STATUS.is_terminal) + (f", {more}" if more else ""))

    def text(self, done: int, *, with_bar: bool = False) -> str:
        per_s, total = self._per_s(done), self._total
        begin = f"{bar(done, total)} " if with_bar and total else ""
        share = f", {done * 100 // total} %" if total and not begin else ""
        left = f", {_time_text((total - done) / per_s)} left" if total is not None and per_s and done <= total else ""
        of = "" if total is None else f" of {self._form(total)}"
        return f"{begin}{self._form(done)}{of} {self._what}{share}, {self._form(per_s)}/s{left}"

    def close(self) -> None:
        STATUS.clear()

    def rate_text(self, done: int) -> str:
        """Return how fast it was."""
        return f"{self._per_s(done):.0f} records/s"

    def _per_s(self, done: int) -> float:
        return done * 1000 / max(self._clock.monotonic_ms() - self._started_ms, 1)


def _time_text(left_s: float) -> str:
    minutes, seconds = divmod(round(left_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
