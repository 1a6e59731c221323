"""How long something took lately: the mean and the longest of the last 30 s. Pure.

Source: Kafka's sensors with an Avg and a Max, such as `partition-load-time-max` of group-coordinator-metrics, which are NaN
when nothing happened.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW_MS = 30_000
BUCKET_MS = 100
"""What was recorded within this time is kept and forgotten together, so that the memory is bounded."""


@dataclass(slots=True)
class _Tenth:
    """Since `since_ms`, on the monotonic clock."""

    since_ms: int
    sum_ms: int = 0
    count: int = 0
    max_ms: int = 0


class RecentTimes:
    """Times are monotonic milliseconds; `record` is called with times that do not fall."""

    def __init__(self) -> None:
        self._buckets: deque[_Tenth] = deque()

    def record(self, duration_ms: int, now_ms: int) -> None:
        buckets = self._buckets
        if not buckets or now_ms - buckets[-1].since_ms >= BUCKET_MS:
            self._forget(now_ms)
            buckets.append(_Tenth(now_ms))
        bucket = buckets[-1]
        bucket.sum_ms += duration_ms
        bucket.count += 1
        bucket.max_ms = max(bucket.max_ms, duration_ms)

    def average_ms(self, now_ms: int) -> float:
        """The mean of the last 30 s; NaN without any."""
        self._forget(now_ms)
        if not self._buckets:
            return float("nan")
        return sum(bucket.sum_ms for bucket in self._buckets) / sum(bucket.count for bucket in self._buckets)

    def max_ms(self, now_ms: int) -> float:
        """The longest of the last 30 s; NaN without any."""
        self._forget(now_ms)
        return max((bucket.max_ms for bucket in self._buckets), default=float("nan"))

    def _forget(self, now_ms: int) -> None:
        while self._buckets and self._buckets[0].since_ms <= now_ms - WINDOW_MS:
            self._buckets.popleft()
