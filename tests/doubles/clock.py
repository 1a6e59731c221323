"""Clocks of tests: one whose time a test decides, with callbacks on it, and two that go on as the system or the loop does."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from runtime.clock import SystemClock


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


class RunningClock(SystemClock):
    """Goes on as the system's. The wall shows `wall_ahead_ms` more, which may change, and each reading of the monotonic time is
    work that took `step_ms`."""

    def __init__(self, *, wall_ahead_ms: int = 0, step_ms: int = 0) -> None:
        self.wall_ahead_ms = wall_ahead_ms
        self._step_ms = step_ms
        self._worked_ms = 0

    def monotonic_ms(self) -> int:
        self._worked_ms += self._step_ms
        return super().monotonic_ms() + self._worked_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self.wall_ahead_ms


class LoopClock:
    """Goes on as the event loop does, in virtual time, too. On a loop of real time the wall shows `wall_start_ms` at first."""

    def __init__(self, wall_start_ms: int = 1_700_000_000_000) -> None:
        self._wall_ahead_ms = wall_start_ms - SystemClock().monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    monotonic_ns = staticmethod(time.monotonic_ns)  # threads ask it, too

    def wall_ms(self) -> int:
        return self._wall_ahead_ms + self.monotonic_ms()


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
