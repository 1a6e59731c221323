"""Metrics as text, for Prometheus. Pure.

Source: the Prometheus text exposition format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.monitoring.metric import Kind, Metric, Sample

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_BOUNDS = {Kind.SUMMARY: "quantile", Kind.HISTOGRAM: "le"}


def family_of(sample: Sample) -> tuple[Metric, str]:
    """Return what the samples below one header have in common: the metric, and of a summary the suffix."""
    return sample.metric, sample.suffix if sample.metric.kind is Kind.SUMMARY else ""


def header(metric: Metric, suffix: str = "") -> list[str]:
    name, kind = metric.prometheus_name + suffix, metric.kind
    if kind is Kind.SUMMARY:
        kind = Kind.COUNTER if suffix else Kind.GAUGE
    return [f"# HELP {name} {metric.doc}\n", f"# TYPE {name} {kind.value}\n"]


def sample_line(sample: Sample) -> str:
    metric = sample.metric
    name = metric.prometheus_name + sample.suffix
    pairs = [
        f'{label}="{value.translate(_ESCAPES)}"'
        for label, value in zip(metric.label_names, sample.labels, strict=True)
        if value
    ]
    if sample.bound:
        pairs.append(f'{_BOUNDS[metric.kind]}="{sample.bound}"')
    value = "NaN" if sample.value != sample.value else sample.value  # only NaN differs from itself
    return f"{name}{{{','.join(pairs)}}} {value}\n" if pairs else f"{name} {value}\n"


def page_text(samples: Iterable[Sample]) -> str:
    """Return a page; the samples of one metric stand together."""
    lines: list[str] = []
    last: tuple[Metric, str] | None = None
    for sample in samples:
        if (family := family_of(sample)) != last:
            last = family
            lines += header(*family)
        lines.append(sample_line(sample))
    return "".join(lines)
