"""The rate of a counter over about a minute, of its readings at scrapes. Pure.

Source: Kafka's sensors with a rate per minute, which record each event; here nothing is done for an event but counting it.
"""

from __future__ import annotations

from collections import deque

WINDOW_MS = 60_000
MINUTE_MS = 60_000


class CounterRate:
    """Readings of a counter that does not fall; times are monotonic."""

    __slots__ = ("_readings",)

    def __init__(self) -> None:
        self._readings: deque[tuple[int, int]] = deque()

    def per_minute(self, count: int, now_ms: int) -> float:
        """Read the counter; return its rate since a reading that is a minute old, or else since the first one."""
        readings = self._readings
        if not readings or now_ms > readings[-1][0]:
            readings.append((now_ms, count))
        while len(readings) > 2 and readings[1][0] <= now_ms - WINDOW_MS:
            readings.popleft()
        began_ms, before = readings[0]
        return (count - before) * MINUTE_MS / (now_ms - began_ms) if now_ms > began_ms else 0.0
