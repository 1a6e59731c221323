"""Limits how fast the cleaner reads and writes: `log.cleaner.io.max.bytes.per.second`, over all its workers.

Rules: pure. Bytes moved beyond the limit make workers wait until the average is below it. The limit is passed with each call,
so that a change takes effect immediately, also for bytes moved before.
Source: Kafka Throttler.
"""

from __future__ import annotations


class CleanerThrottle:
    """Limits the IO of all cleaner threads."""

    __slots__ = ("_debt_bytes", "_since_ms")

    def __init__(self) -> None:
        self._debt_bytes = 0.0
        self._since_ms = 0

    def moved(self, count_bytes: int) -> None:
        """Count bytes that were read or written."""
        self._debt_bytes += count_bytes

    def wait_ms(self, bytes_per_second: float, now_ms: int) -> int:
        """Return how long to wait until the bytes moved are within the limit; 0 when they are."""
        paid_bytes = max(now_ms - self._since_ms, 0) * bytes_per_second / 1000
        self._since_ms = now_ms
        self._debt_bytes = max(self._debt_bytes - paid_bytes, 0.0)
        if not self._debt_bytes or bytes_per_second <= 0:
            return 0
        return int(min(self._debt_bytes * 1000 / bytes_per_second, 1 << 31))
