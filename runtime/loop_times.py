"""How late an event loop is, and how much of its time it is idle.

Rules: called on the loop's own thread, a few times a second. The loop is idle while its thread uses no processor: it waits for
events, for a disk that it writes to by itself, or for the interpreter while other threads have it.
Source: ours; Kafka's NetworkProcessorAvgIdlePercent and RequestHandlerAvgIdlePercent.
"""

from __future__ import annotations

from collections import deque

from runtime.distribution import Distribution

READINGS_KEPT = 31
READING_PERIOD_NS = 1_000_000_000


class LoopTimes:
    """`delays` are in ns: how much later than it asked for the beat of a loop was called. The idle ratio is that of the last
    half a minute."""

    __slots__ = ("_began", "_busy_ns", "_now_ns", "_readings", "delays")

    def __init__(self) -> None:
        self.delays = Distribution()
        self._began = (0, 0)
        self._now_ns = self._busy_ns = 0
        self._readings: deque[tuple[int, int]] = deque(maxlen=READINGS_KEPT)

    def beat(self, late_ns: int, now_ns: int, busy_ns: int) -> None:
        """Note the time now, and that for which the loop's thread has used a processor. `late_ns` may be below 0."""
        self.delays.add(max(late_ns, 0))
        self._now_ns, self._busy_ns = now_ns, busy_ns
        if not self._readings or now_ns - self._readings[-1][0] >= READING_PERIOD_NS:
            self._readings.append((now_ns, busy_ns))

    def begin(self, now_ns: int, busy_ns: int) -> None:
        """The loop starts."""
        self._began = (now_ns, busy_ns)
        self._now_ns, self._busy_ns = now_ns, busy_ns
        self._readings.append(self._began)

    def idle_ns(self) -> int:
        """Return for how long the loop was idle since its start."""
        began_ns, busy_ns = self._began
        return max(self._now_ns - began_ns - (self._busy_ns - busy_ns), 0)

    def idle_ratio(self) -> float:
        """Return a number from 0 to 1; 1 before there is anything to tell."""
        if not self._readings:
            return 1.0
        began_ns, busy_ns = self._readings[0]
        elapsed_ns = self._now_ns - began_ns
        if elapsed_ns <= 0:
            return 1.0
        return min(max(1 - (self._busy_ns - busy_ns) / elapsed_ns, 0.0), 1.0)
