"""How values are distributed: counts by size, and quantiles of the recent ones.

A value is counted in one of a hundred buckets, each at most a third wider than where it begins; a quantile is interpolated
in its bucket. Quantiles favour recent values as Kafka's do: the weight of a value falls by half in 46 s, and values that
nothing followed keep theirs. The values between two readings of the quantiles count as simultaneous.

Pure. Rules: `add` allocates nothing but the growing ints; what is read at a scrape is worked out then.
Source: Yammer's ExponentiallyDecayingSample (alpha 0.015), which keeps 1,028 of the values.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

_MANTISSAS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
BOUNDS: tuple[int, ...] = (*(mantissa * 10**exponent for exponent in range(10) for mantissa in _MANTISSAS), 10**11)
"""The largest values of the buckets but the last, which has no end: 10 to 10^11, such as 10 ns to 100 s. Values of the first
bucket count as 0."""
BUCKETS_COUNT = len(BOUNDS) + 1

TABLE_SIZE = 1 << 14
UNIT_BITS = 12
UNIT_BUCKETS = bytes(bisect_left(BOUNDS, units << UNIT_BITS) for units in range(TABLE_SIZE))
"""The bucket of each small value in units of 4096, rounded down, for where `bisect` would cost too much: times in units of
4 us, up to 67 ms."""
DISTINCT_MAX = 256

QUANTILES = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
"""By the label of each."""

DECAY_PER_S = 0.015


def no_values() -> list[int]:
    """Return the counts of a distribution without values."""
    return [0] * BUCKETS_COUNT


def quantile(weights: Sequence[float], share: float) -> float:
    """Return the value below which this share of the weight lies: 0 without any."""
    total = sum(weights)
    if not total:
        return 0.0
    wanted = share * total
    below = 0.0
    for index, weight in enumerate(weights):
        if weight and below + weight >= wanted:
            if index == 0:
                return 0.0
            if index == len(BOUNDS):
                break
            low, high = BOUNDS[index - 1], BOUNDS[index]
            return low + (high - low) * max(wanted - below, 0.0) / weight
        below += weight
    return float(BOUNDS[-1])


class RecentWeights:
    """The weights of the buckets of one distribution, at its last reading."""

    __slots__ = ("_counts", "_read_ms", "_weights")

    def __init__(self) -> None:
        self._counts: Sequence[int] = (0,) * BUCKETS_COUNT
        self._weights = [0.0] * BUCKETS_COUNT
        self._read_ms = 0

    def quantiles(self, counts: Sequence[int], now_ms: int) -> list[tuple[str, float]]:
        """Return the quantiles with their labels; `counts` are those of the distribution now."""
        if counts != self._counts:
            kept = math.exp(-DECAY_PER_S * max(now_ms - self._read_ms, 0) / 1000)
            self._weights = [
                weight * kept + (new - old)
                for weight, new, old in zip(self._weights, counts, self._counts, strict=True)
            ]
            self._counts = list(counts)
            self._read_ms = now_ms
        return [(label, quantile(self._weights, share)) for label, share in QUANTILES.items()]


class Distribution:
    """Values of one kind: counts by bucket, and their sum. Times are in nanoseconds, sizes in bytes."""

    __slots__ = ("_recent", "counts", "total")

    def __init__(self) -> None:
        self.counts = no_values()
        self.total = 0
        self._recent = RecentWeights()

    def add(self, value: int) -> None:
        self.counts[bisect_left(BOUNDS, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def with_zeros(self, count: int) -> Distribution:
        """Return what this is with so many values in all: those that were not added are 0. It shares the recent weights."""
        filled = Distribution()
        filled.counts = [self.counts[0] + max(count - self.count, 0), *self.counts[1:]]
        filled.total, filled._recent = self.total, self._recent
        return filled

    def quantiles(self, now_ms: int) -> list[tuple[str, float]]:
        """Return the quantiles of the recent values, with their labels."""
        return self._recent.quantiles(self.counts, now_ms)


class ValueCounts(dict[int, int]):
    """How often each value occurred, for where adding one must cost as little as possible: `counts[value] += 1`. At most
    `DISTINCT_MAX` values stand apart."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        super().__init__()
        self._counts = no_values()
        self._total = 0

    def __missing__(self, value: int) -> int:
        if len(self) >= DISTINCT_MAX:
            self._fold()
        return 0

    def read(self) -> tuple[list[int], int]:
        """Return the counts by bucket, which remain the owner's, and the sum of all values."""
        self._fold()
        return self._counts, self._total

    def _fold(self) -> None:
        for value, count in self.items():
            self._counts[bisect_left(BOUNDS, value)] += count
            self._total += value * count
        self.clear()


def cumulative(counts: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """Return how many values are at most each of `bounds`, which are some of `BOUNDS`."""
    sums = list(accumulate(counts))
    return [sums[bisect_left(BOUNDS, bound)] for bound in bounds]
