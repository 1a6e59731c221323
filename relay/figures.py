"""What a relay has done since it was started, in numbers. Pure: read by the page of figures, written by the lanes.

Rules: counters only grow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from runtime.distribution import Distribution

NS_PER_MS = 1_000_000


@dataclass(slots=True)
class RelayCounts:
    """What a transaction, or all of them, did with records."""

    taken_in: int = 0
    delivered: int = 0
    dead_letters: int = 0
    expired: int = 0
    cancelled: int = 0
    replaced: int = 0
    too_late: int = 0
    gone: int = 0
    copied: int = 0

    def add(self, other: RelayCounts) -> None:
        for each in fields(RelayCounts):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class RelayFigures(RelayCounts):
    """`lateness` has how much later than they were due records were delivered, in nanoseconds."""

    commits: int = 0
    aborts: int = 0
    lateness: Distribution = field(default_factory=Distribution)

    def add_late(self, lateness_ms: Iterable[int]) -> None:
        """Count deliveries by how late they were."""
        for each in lateness_ms:
            self.lateness.add(each * NS_PER_MS)
