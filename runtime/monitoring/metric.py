"""What a metric is, and the rule for its Prometheus name.

Names, labels and types are those that jmx_exporter 0.20 gives for Apache Kafka with its example `kafka-2_0_0.yml`. An
MBean with a name becomes domain, type and name in lower case joined by underscores; labels keep their case. A meter
`...PerSec` is a counter `..._total`, another meter a counter `..._count`. A histogram or timer is gauges with the label
`quantile` and a counter `..._count`; the counter `..._sum` is ours. MBeans that gather attributes in place of having a name
(Kafka's newer metrics) are not in that file, but for quotas; they give one row an attribute, named by the same rule.
Source: jmx_exporter, its example for Kafka 2.0.0 and newer.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.distribution import Distribution, cumulative


class Kind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` are the MBean's keys behind type and name. `attribute` is set where the MBean has no name, `name` is then the
    attribute's. `mbeans` are the patterns of several MBeans that are one metric; `own` marks what Apache Kafka 3.9 lacks."""

    domain: str
    type: str
    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    attribute: bool = False
    own: bool = False
    mbeans: tuple[str, ...] = field(default=())

    @property
    def patterns(self) -> tuple[str, ...]:
        """The MBeans' names without the values of their labels: `domain:type=...,name=...,label,label`."""
        return self.mbeans or (self._pattern,)

    @property
    def _pattern(self) -> str:
        keys = [f"type={self.type}", *([] if self.attribute else [f"name={self.name}"]), *self.labels]
        return f"{self.domain}:{','.join(keys)}"

    @property
    def prometheus_name(self) -> str:
        name = self.name
        if self.kind is Kind.COUNTER:
            if name.endswith("PerSec"):
                name = name.removesuffix("PerSec") + "_total"
            elif self.attribute or self.own:
                name = name.removesuffix("-count").removesuffix("-total") + "_total"
            else:
                name += "_count"
        return re.sub(r"[.\-]", "_", "_".join(filter(None, (self.domain, self.type, name)))).lower()

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.replace("-", "_") for label in self.labels)

    @property
    def families(self) -> tuple[tuple[str, Kind], ...]:
        """The Prometheus metrics that it gives, with their types."""
        name = self.prometheus_name
        if self.kind is not Kind.SUMMARY:
            return ((name, self.kind),)
        return (name, Kind.GAUGE), (f"{name}_count", Kind.COUNTER), (f"{name}_sum", Kind.COUNTER)


class Sample(NamedTuple):
    """A label without a value is left out. `suffix` is that of the sample's name: `_count`, `_sum`, `_bucket`; `bound` is the
    quantile of a sample of a summary, or the largest value of a bucket."""

    metric: Metric
    labels: tuple[str, ...]
    value: float
    suffix: str = ""
    bound: str = ""


MS_PER_NS = 1e-6
_NS_PER_MS = 1_000_000
HISTOGRAM_BOUNDS = {
    f"{bound / 1_000_000_000:g}": bound
    for bound in (
        *(number * _NS_PER_MS // 100 for number in (10, 25, 50, 100, 250, 500)),
        *(number * _NS_PER_MS for number in (10, 25, 50, 100, 250, 500)),
        *(number * 1_000 * _NS_PER_MS for number in (1, 2, 5, 10, 30, 60)),
    )
}
"""The largest times of the buckets of a histogram: in ns, by the label, which is in seconds."""


def summary_samples(
    metric: Metric, distributions: Sequence[tuple[tuple[str, ...], Distribution]], now_ms: int, scale: float = MS_PER_NS
) -> Iterator[Sample]:
    """Yield the samples of a summary, for each labels' distribution; `scale` makes the metric's unit of the distribution's."""
    for labels, each in distributions:
        for label, value in each.quantiles(now_ms):
            yield Sample(metric, labels, round(value * scale, 6), bound=label)
    for labels, each in distributions:
        yield Sample(metric, labels, each.count, "_count")
    for labels, each in distributions:
        yield Sample(metric, labels, round(each.total * scale, 6), "_sum")


def histogram_samples(metric: Metric, labels: tuple[str, ...], distribution: Distribution) -> Iterator[Sample]:
    """Yield a histogram in seconds, of times in nanoseconds."""
    sums = cumulative(distribution.counts, list(HISTOGRAM_BOUNDS.values()))
    for bound, count in zip(HISTOGRAM_BOUNDS, sums, strict=True):
        yield Sample(metric, labels, count, "_bucket", bound)
    yield Sample(metric, labels, distribution.count, "_bucket", "+Inf")
    yield Sample(metric, labels, distribution.count, "_count")
    yield Sample(metric, labels, round(distribution.total / 1_000_000_000, 9), "_sum")
