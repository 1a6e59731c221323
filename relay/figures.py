"""What a relay has done since it was started, in numbers. Pure: read by the page of figures, written by the lanes.

Rules: counters only grow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.distribution import Distribution

NS_PER_MS = 1_000_000


@dataclass(slots=True)
class RelayFigures:
    """`lateness` has how much later than they were due records were delivered, in nanoseconds."""

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
    lateness: Distribution = field(default_factory=Distribution)

    def late(self, lateness_ms: Iterable[int]) -> None:
        """Count deliveries by how late they were."""
        for each in lateness_ms:
            self.lateness.add(each * NS_PER_MS)
