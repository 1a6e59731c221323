"""How far a layout is from what is wanted: one number for each goal, in their order; the smallest is the best. Pure.

Rules: in this order no goal harms an earlier one, so a plan is better than another when its numbers come first in
lexicographic order. Numbers of replicas and leaders are compared by the sum of their squares; bytes and rate by what lies
outside a band around the mean, so that small differences move nothing.
Source: the goals of Cruise Control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.balance.layout import Layout

THRESHOLD_PERCENT = 10
SMALLEST_BYTES = 1 << 20
"""Differences below it are noise: indexes, markers, internal topics."""
SMALLEST_RATE = 1_000
GOALS = ("drained", "racks", "replicas", "leaders", "bytes", "rate")


@dataclass(frozen=True, slots=True)
class Band:
    """Between `low` and `high` a broker's sum is even. `total` is the sum of all."""

    low: int
    high: int
    total: int

    @classmethod
    def around_mean(cls, sums: Mapping[int, int], brokers: tuple[int, ...], percent: int, smallest: int) -> Band:
        total = sum(sums[broker] for broker in brokers)
        mean = total // max(len(brokers), 1)
        width = max(mean * percent // 100, smallest)
        return cls(mean - width, mean + width, total)

    def excess(self, amount: int) -> int:
        """Return how much of a broker's sum is outside."""
        return max(amount - self.high, self.low - amount, 0)


def bytes_band(layout: Layout, percent: int) -> Band:
    return Band.around_mean(layout.bytes, layout.takers, percent, SMALLEST_BYTES)


def rate_band(layout: Layout, percent: int) -> Band:
    return Band.around_mean(layout.rate, layout.takers, percent, SMALLEST_RATE)


def distances(layout: Layout, percent: int = THRESHOLD_PERCENT) -> tuple[int, ...]:
    """Return the distance from each of `GOALS`."""
    of_bytes, of_rate = bytes_band(layout, percent), rate_band(layout, percent)
    return (
        # A partition that a drained broker leads as well counts twice: another replica should lead at least.
        sum((broker in layout.drained) * (1 + (place == 0))
            for key, replicas in layout.replicas.items() if layout.loads[key].is_movable
            for place, broker in enumerate(replicas)),
        sum(map(layout.crowding, layout.replicas)),
        sum(layout.count[broker] ** 2 for broker in layout.takers),
        sum(layout.leaders[broker] ** 2 for broker in layout.takers),
        sum(of_bytes.excess(layout.bytes[broker]) for broker in layout.takers),
        sum(of_rate.excess(layout.rate[broker]) for broker in layout.takers),
    )  # fmt: skip


def short_of_racks(layout: Layout) -> int:
    """Return how many partitions are on fewer racks than there are for them."""
    number = len({layout.rack(broker) for broker in layout.takers})
    return sum(len(layout.racks(key)) < min(len(replicas), number) for key, replicas in layout.replicas.items())
