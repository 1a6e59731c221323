"""How long the loads of a coordinator's partitions took lately. Pure.

Source: Kafka's `partition-load-time-max` and `partition-load-time-avg` of group-coordinator-metrics and
transaction-coordinator-metrics, which are NaN when nothing was loaded.
"""

from __future__ import annotations

from collections import deque

WINDOW_MS = 30_000


class LoadTimes:
    """Owned by a coordinator. Times are monotonic milliseconds; `record` is called with times that do not fall."""

    def __init__(self) -> None:
        self._loads: deque[tuple[int, int]] = deque()

    def record(self, duration_ms: int, now_ms: int) -> None:
        self._forget(now_ms)
        self._loads.append((now_ms, duration_ms))

    def average_ms(self, now_ms: int) -> float:
        """The mean of the last 30 s; NaN without a load."""
        self._forget(now_ms)
        if not self._loads:
            return float("nan")
        return sum(duration_ms for _, duration_ms in self._loads) / len(self._loads)

    def max_ms(self, now_ms: int) -> float:
        """The longest of the last 30 s; NaN without a load."""
        self._forget(now_ms)
        return max((duration_ms for _, duration_ms in self._loads), default=float("nan"))

    def _forget(self, now_ms: int) -> None:
        while self._loads and self._loads[0][0] <= now_ms - WINDOW_MS:
            self._loads.popleft()
