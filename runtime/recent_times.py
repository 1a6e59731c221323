"""How long something took lately: the mean and the longest of the last 30 s. Pure.

Source: Kafka's sensors with an Avg and a Max, such as `partition-load-time-max` of group-coordinator-metrics, which are NaN
when nothing happened.
"""

from __future__ import annotations

from collections import deque

WINDOW_MS = 30_000


class RecentTimes:
    """Times are monotonic milliseconds; `record` is called with times that do not fall."""

    def __init__(self) -> None:
        self._times: deque[tuple[int, int]] = deque()

    def record(self, duration_ms: int, now_ms: int) -> None:
        self._forget(now_ms)
        self._times.append((now_ms, duration_ms))

    def average_ms(self, now_ms: int) -> float:
        """The mean of the last 30 s; NaN without any."""
        self._forget(now_ms)
        if not self._times:
            return float("nan")
        return sum(duration_ms for _, duration_ms in self._times) / len(self._times)

    def max_ms(self, now_ms: int) -> float:
        """The longest of the last 30 s; NaN without any."""
        self._forget(now_ms)
        return max((duration_ms for _, duration_ms in self._times), default=float("nan"))

    def _forget(self, now_ms: int) -> None:
        while self._times and self._times[0][0] <= now_ms - WINDOW_MS:
            self._times.popleft()
