"""The clock of tests that decide what time it is."""

from __future__ import annotations


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

    def wall_ms(self) -> int:
        return self.now_ms + self._wall_ahead_ms
