"""What a relay has done since it was started, in numbers. Pure: read by the page of figures, written by the lanes.

Rules: counters only grow; durations are milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

LATENESS_BOUNDS_MS: Final = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000)


@dataclass(slots=True)
class RelayFigures:
    """`lateness_counts` has a count for each bound of LATENESS_BOUNDS_MS, and one for what is beyond."""

    taken_in: int = 0
    delivered: int = 0
    dead_letters: int = 0
    expired: int = 0
    cancelled: int = 0
    replaced: int = 0
    too_late: int = 0
    gone: int = 0
    copied: int = 0
    commits: int = 0
    aborts: int = 0
    lateness_sum_ms: int = 0
    lateness_counts: list[int] = field(default_factory=lambda: [0] * (len(LATENESS_BOUNDS_MS) + 1))

    def late(self, lateness_ms: Iterable[int]) -> None:
        """Count deliveries by how late they were."""
        for each in lateness_ms:
            self.lateness_sum_ms += each
            self.lateness_counts[bisect_left(LATENESS_BOUNDS_MS, each)] += 1
