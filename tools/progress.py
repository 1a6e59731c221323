"""How far a long command has come, with its rate and the time that is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tools.output import STATUS

if TYPE_CHECKING:
    from runtime.clock import Clock


class Progress:
    """Counts towards `total`; `close` removes the line."""

    def __init__(self, what: str, total: int, clock: Clock, form: Callable[[float], str] = "{:.0f}".format) -> None:
        """`form` makes the text of an amount."""
        self._what = what
        self._total = total
        self._clock = clock
        self._form = form
        self._started_ms = clock.monotonic_ms()

    def show(self, done: int, more: str = "") -> None:
        if STATUS.is_due:
            STATUS.show(self.text(done) + (f", {more}" if more else ""))

    def text(self, done: int) -> str:
        per_s = self._per_s(done)
        share = f", {done * 100 // self._total} %" if self._total else ""
        left = f", {_time_text((self._total - done) / per_s)} left" if per_s and done <= self._total else ""
        return f"{self._form(done)} of {self._form(self._total)} {self._what}{share}, {self._form(per_s)}/s{left}"

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
