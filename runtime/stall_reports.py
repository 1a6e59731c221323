"""When a line of the log reports stalls of an event loop.

Rules: pure; times are monotonic. At most one line in REPORT_PAUSE_MS: the first stall is reported at once, those that follow
are counted until the pause is over. A busy machine stalls an idle process a little, again and again: only a stall that a client
notices makes the line a warning.
"""

from __future__ import annotations

from dataclasses import dataclass

REPORT_PAUSE_MS = 60_000
WARNING_MS = 1_000


@dataclass(frozen=True, slots=True)
class StallReport:
    """The stalls since the report before: how many, and the longest of them."""

    count: int
    longest_ms: int

    @property
    def is_warning(self) -> bool:
        return self.longest_ms > WARNING_MS


class StallReports:
    """The stalls that no line has reported yet."""

    __slots__ = ("_count", "_longest_ms", "_reported_ms")

    def __init__(self) -> None:
        self._count = self._longest_ms = 0
        self._reported_ms: int | None = None

    def add(self, stall_ms: int) -> None:
        self._count += 1
        self._longest_ms = max(self._longest_ms, stall_ms)

    def due(self, now_ms: int) -> StallReport | None:
        """Return what a line has to tell now; None while there is nothing, or the line before was a short time ago."""
        if self._reported_ms is not None and now_ms - self._reported_ms < REPORT_PAUSE_MS:
            return None
        self._reported_ms = now_ms if self._count else None
        return self.rest()

    def rest(self) -> StallReport | None:
        """Return what no line has reported, whenever the line before was; None if there is nothing."""
        if not self._count:
            return None
        report = StallReport(self._count, self._longest_ms)
        self._count = self._longest_ms = 0
        return report
