"""A histogram of times: bounded memory, each value within one percent. Pure."""

from __future__ import annotations

import math
from collections import Counter

_PRECISION = 0.01
_LOG_STEP = math.log1p(_PRECISION)
QUANTILES = (0.5, 0.95, 0.99, 0.999)


class Histogram:
    """Of durations in milliseconds, which may be fractions."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0

    def add(self, value_ms: float) -> None:
        self._counts[_bucket(value_ms)] += 1
        self.count += 1
        self.total_ms += value_ms
        self.max_ms = max(self.max_ms, value_ms)

    def quantile_ms(self, quantile: float) -> float:
        """Return the value below which this share of all lies; 0 when there is none."""
        wanted, seen = quantile * self.count, 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(math.exp(bucket * _LOG_STEP) / 1000, self.max_ms)
        return 0.0

    def row(self) -> dict[str, float]:
        """Return mean, quantiles and maximum, in milliseconds, rounded to microseconds."""
        mean_ms = self.total_ms / self.count if self.count else 0.0
        quantiles = {f"p{quantile * 100:g}".replace(".", ""): self.quantile_ms(quantile) for quantile in QUANTILES}
        return {
            f"{name}_ms": round(value, 3)
            for name, value in ({"mean": mean_ms} | quantiles | {"max": self.max_ms}).items()
        }

    def text(self) -> str:
        return ", ".join(f"{name.removesuffix('_ms')} {value:g} ms" for name, value in self.row().items())


def _bucket(value_ms: float) -> int:
    return round(math.log(max(value_ms * 1000, 1.0)) / _LOG_STEP)
