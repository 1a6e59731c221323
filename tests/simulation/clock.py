"""The clock door on virtual time. Each node has its own: wall time may be wrong, monotonic time is not."""

from __future__ import annotations

from tests.simulation.loop import SimLoop

EPOCH_MS = 1_700_000_000_000


class SimClock:
    def __init__(self, loop: SimLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def monotonic_ms(self) -> int:
        return self._loop.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._loop.now_ns

    def wall_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + self._loop.now_ns // 1_000_000
