"""The clock of tests that decide what time it is, and callbacks on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class ManualClock:
    """Time stands still until a test changes `now_ms`. With `step_ms` each reading of the monotonic time is work that took
    that long. The wall shows `wall_ahead_ms` more."""

    def __init__(self, now_ms: int = 0, *, step_ms: int = 0, wall_ahead_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._step_ms = step_ms
        self._wall_ahead_ms = wall_ahead_ms

    def monotonic_ms(self) -> int:
        self.now_ms += self._step_ms
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms + self._wall_ahead_ms


class Turns:
    """`call_soon` and `call_later` by hand: `run` is one loop that goes on until nothing is due."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._soon: deque[Callable[[], None]] = deque()
        self._later: list[Cancellable] = []

    def call_soon(self, callback: Callable[[], None]) -> object:
        self._soon.append(callback)
        return None

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Cancellable:
        later = Cancellable(self._clock.now_ms + round(delay * 1000, 3), callback)
        self._later.append(later)
        return later

    def run(self) -> None:
        while self._soon:
            self._soon.popleft()()

    def advance(self, duration_ms: int) -> None:
        end_ms = self._clock.now_ms + duration_ms
        self.run()
        while True:
            self._later = [one for one in self._later if not one.is_cancelled]
            first = min(self._later, key=lambda one: one.due_ms, default=None)
            if first is None or first.due_ms > end_ms:
                break
            self._later.remove(first)
            self._clock.now_ms = max(self._clock.now_ms, round(first.due_ms))
            first.callback()
            self.run()
        self._clock.now_ms = end_ms


class Cancellable:
    """A callback of `Turns.call_later`."""

    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
