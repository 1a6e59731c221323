"""Metrics as clients push them: OTLP, by OpenTelemetry's own classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in labels.items()]


def point(value: float, labels: Mapping[str, str] | None = None) -> NumberDataPoint:
    number: dict[str, Any] = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    return NumberDataPoint(attributes=attributes(labels or {}), **number)


def gauge(name: str, value: float, **labels: str) -> Metric:
    return Metric(name=name, gauge=Gauge(data_points=[point(value, labels)]))


def counter(name: str, value: float, temporality: int = DELTA, *, is_monotonic: bool = True, **labels: str) -> Metric:
    total = Sum(data_points=[point(value, labels)], is_monotonic=is_monotonic)
    total.aggregation_temporality = temporality  # type: ignore[assignment]
    return Metric(name=name, sum=total)


def histogram(
    name: str, bounds: list[float], counts: list[int], total: float, temporality: int = DELTA, **labels: str
) -> Metric:
    row = HistogramDataPoint(
        attributes=attributes(labels), count=sum(counts), sum=total, bucket_counts=counts, explicit_bounds=bounds
    )
    made = Histogram(data_points=[row])
    made.aggregation_temporality = temporality  # type: ignore[assignment]
    return Metric(name=name, histogram=made)


def pushed(*metrics: Metric, **resource: str) -> bytes:
    """What a push has, not compressed. `resource` are attributes of the client, such as its group."""
    scopes = [ScopeMetrics(metrics=list(metrics))]
    return MetricsData(
        resource_metrics=[ResourceMetrics(resource=Resource(attributes=attributes(resource)), scope_metrics=scopes)]
    ).SerializeToString()
