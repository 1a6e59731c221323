"""OTLP, as clients push it, unfolded into samples of Prometheus, within bounds.

The messages of OpenTelemetry are nested: resources (the client), scopes, metrics, data points, attributes. The outer three
levels are walked here, in steps that whoever calls may spread over time; each metric is then decoded by OpenTelemetry's own
package, which is loaded with the first push. A whole push would be decoded in one call, for which two bytes may cost fifty.

Rules: pure. A metric that is too large or has a name or labels beyond the limits is left out and counted by its reason; what is
no protobuf at all raises ValueError. Exponential histograms are left out, which no client of Kafka sends.
Source: KIP-714; OpenTelemetry's metrics.proto; the naming rules of Prometheus and of OpenTelemetry's exporter for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from protocol.primitives import DecodeError
from protocol.varint import decode_uvarint

METRIC_MAX_BYTES = 128 * 1024
"""Of one metric with all its data points."""
ATTRIBUTES_MAX_BYTES = 32 * 1024
"""Of a resource."""
NAME_MAX = 200
LABELS_MAX = 16
"""Of one data point, and of a resource."""
LABEL_NAME_MAX = 64
LABEL_VALUE_MAX = 256
DOC_MAX = 256
MAX_BUCKETS = 64
OF_KAFKAS_CLIENTS, OF_OTHERS = "org_apache_kafka_", "client_"
"""What names begin with: no client can push what looks like a metric of a broker, of which alerts are made."""
NAMES_KEPT = 4_096
"""How many names are remembered with what they become."""

Labels = tuple[tuple[str, str], ...]

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_TAKEN = frozenset({"broker", "job", "instance", "le", "quantile", "client_id", "client_instance_id"})
"""Labels that mean something else on the page."""
_RESOURCE_METRICS, _RESOURCE, _SCOPE_METRICS, _METRICS = 1, 1, 2, 2
"""Numbers of fields: of MetricsData, of ResourceMetrics, of ScopeMetrics."""
_VARINT, _LENGTH_DELIMITED = 0, 2
_SIZES = {1: 8, 5: 4}
"""Of wire types, in bytes."""


class FamilyKind(Enum):
    """Kinds of families in the text form."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Left(Enum):
    """Why something of a push is left out."""

    KIND = "kind"
    NAME = "name"
    LABELS = "labels"
    SIZE = "size"
    VALUE = "value"
    NOT_ASKED = "not_asked"
    SERIES_OF_CLIENT = "series_of_client"
    MEMORY = "memory"
    NAMES = "names"
    CLIENTS = "clients"


class Value(NamedTuple):
    """One sample of a point: what its name ends with, the bound of a bucket, and the value."""

    suffix: str
    bound: str
    value: float


class Point(NamedTuple):
    """One data point. `name` is OpenTelemetry's, as subscriptions have it. A delta is to be added to what there is."""

    name: str
    family: str
    kind: FamilyKind
    doc: str
    labels: Labels
    values: tuple[Value, ...]
    is_delta: bool


@dataclass(frozen=True, slots=True)
class PushedResource:
    """The attributes of the client that the points after it are of."""

    labels: Labels


Item = Point | PushedResource | Left | None
"""What one step gives; None: nothing, but some time was spent."""


class Otlp(NamedTuple):
    """What is used of OpenTelemetry's package: two messages, and the error of bytes that are none."""

    metric: Any
    resource: Any
    broken: type[Exception]


@cache
def otlp() -> Otlp:
    """Load the package. It takes some 30 ms, so that the first call is made in a thread."""
    from google.protobuf.message import DecodeError as BrokenMessage  # noqa: PLC0415  most brokers need none of it
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric  # noqa: PLC0415
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415

    return Otlp(Metric, Resource, BrokenMessage)


def unfold(data: bytes) -> Iterator[Item]:
    """Yield what a push has. Raises ValueError."""
    try:
        for resource in _fields(memoryview(data), _RESOURCE_METRICS):
            if resource is None:
                yield None
                continue
            yield from _resource(resource)
    except otlp().broken as error:
        raise ValueError(str(error)) from error


def _resource(data: memoryview) -> Iterator[Item]:
    attributes, scopes = b"", []
    for number, field in _numbered_fields(data):
        if number == _RESOURCE:
            attributes = bytes(field[: ATTRIBUTES_MAX_BYTES + 1])
        elif number == _SCOPE_METRICS:
            scopes.append(field)
        yield None
    yield _resource_labels(attributes)
    for scope in scopes:
        for metric in _fields(scope, _METRICS):
            if metric is None:
                yield None
            elif len(metric) > METRIC_MAX_BYTES:
                yield Left.SIZE
            else:
                yield from _metric(bytes(metric))


def _resource_labels(attributes: bytes) -> Item:
    if len(attributes) > ATTRIBUTES_MAX_BYTES:
        return Left.SIZE
    labels = _labels(otlp().resource.FromString(attributes).attributes)
    return Left.LABELS if labels is None else PushedResource(labels)


# --- the outer levels ---


def _fields(data: memoryview, wanted: int) -> Iterator[memoryview | None]:
    """Yield the submessages with this number, and None for any other field."""
    for number, field in _numbered_fields(data):
        yield field if number == wanted else None


def _numbered_fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields of a message: with their content where they have a length, else without any. Raises ValueError."""
    at = 0
    try:
        while at < len(data):
            key, at = decode_uvarint(data, at)
            kind, size, start = key & 7, 0, at
            if kind == _LENGTH_DELIMITED:
                size, start = decode_uvarint(data, at)
            elif kind == _VARINT:
                start = _after_varint(data, at)
            elif kind in _SIZES:
                start = at + _SIZES[kind]
            else:
                raise ValueError(f"a field has the wire type {kind}")
            at = start + size
            if at > len(data):
                raise ValueError("a field is longer than its message")
            yield key >> 3 if kind == _LENGTH_DELIMITED else 0, data[start:at]
    except (IndexError, DecodeError) as error:
        raise ValueError("a field has no end") from error


def _after_varint(data: memoryview, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


# --- one metric ---


def _metric(data: bytes) -> Iterator[Item]:
    metric = otlp().metric.FromString(data)
    family = family_name(metric.name)
    if family is None:
        yield Left.NAME
        return
    doc = metric.description[:DOC_MAX]
    which = metric.WhichOneof("data")
    if which == "gauge":
        yield from _numbers(metric, family, doc, metric.gauge.data_points, FamilyKind.GAUGE, is_delta=False)
    elif which == "sum":
        is_counter = metric.sum.is_monotonic
        if is_counter and not family.endswith("_total"):
            family += "_total"
        kind, is_delta = (
            FamilyKind.COUNTER if is_counter else FamilyKind.GAUGE,
            metric.sum.aggregation_temporality == _DELTA,
        )
        yield from _numbers(metric, family, doc, metric.sum.data_points, kind, is_delta=is_delta)
    elif which == "histogram":
        yield from _histograms(metric, family, doc)
    else:
        yield Left.KIND


_DELTA = 1
"""AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA"""


def _numbers(
    metric: Any, family: str, doc: str, points: Iterable[Any], kind: FamilyKind, *, is_delta: bool
) -> Iterator[Item]:
    for point in points:
        labels = _labels(point.attributes)
        value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
        if labels is None:
            yield Left.LABELS
        elif (kind is FamilyKind.COUNTER or is_delta) and not _is_amount(
            value, may_fall=kind is not FamilyKind.COUNTER
        ):
            yield Left.VALUE
        else:
            yield Point(metric.name, family, kind, doc, labels, (Value("", "", value),), is_delta)


def _histograms(metric: Any, family: str, doc: str) -> Iterator[Item]:
    is_delta = metric.histogram.aggregation_temporality == _DELTA
    for point in metric.histogram.data_points:
        labels = _labels(point.attributes)
        bounds, counts = list(point.explicit_bounds[:MAX_BUCKETS]), list(point.bucket_counts[: MAX_BUCKETS + 1])
        if labels is None:
            yield Left.LABELS
        elif not _is_amount(point.sum, may_fall=False) or not _are_buckets(bounds, counts):
            yield Left.VALUE
        else:
            values, below = [], 0
            for bound, count in zip(bounds, counts, strict=False):
                below += count
                values.append(Value("_bucket", _number_text(bound), below))
            values.append(Value("_bucket", "+Inf", point.count))
            values += [Value("_sum", "", point.sum), Value("_count", "", point.count)]
            yield Point(metric.name, family, FamilyKind.HISTOGRAM, doc, labels, tuple(values), is_delta)


def _are_buckets(bounds: list[float], counts: list[int]) -> bool:
    """Return whether there is a count for each bound and one above all, or none at all."""
    are_finite = all(bound - bound == 0 for bound in bounds)
    return are_finite and bounds == sorted(set(bounds)) and len(counts) in (0, len(bounds) + 1)


def _is_amount(value: float, *, may_fall: bool) -> bool:
    """Return whether a value can be added up: finite, and for a counter not negative."""
    return value - value == 0 and (may_fall or value >= 0)


def _number_text(value: float) -> str:
    return f"{value:g}"


# --- names ---


@lru_cache(maxsize=NAMES_KEPT)
def family_name(name: str) -> str | None:
    """Return the name of the family of a metric; None when it has none that can be shown."""
    if not 0 < len(name) <= NAME_MAX:
        return None
    family = _NOT_IN_A_NAME.sub("_", name)
    return family if family.startswith(OF_KAFKAS_CLIENTS) else f"{OF_OTHERS}{family}"


def _labels(attributes: Sequence[Any]) -> Labels | None:
    """Return attributes as labels, without those that have no text, in the order of their names; None beyond the limits."""
    labels: dict[str, str] = {}
    if len(attributes) > LABELS_MAX:
        return None
    for attribute in attributes:
        which = attribute.value.WhichOneof("value")
        if which == "string_value":
            value = attribute.value.string_value
        elif which == "int_value":
            value = str(attribute.value.int_value)
        elif which == "bool_value":
            value = "true" if attribute.value.bool_value else "false"
        elif which == "double_value":
            value = _number_text(attribute.value.double_value)
        else:
            continue
        name = attribute.key
        if not 0 < len(name) <= LABEL_NAME_MAX or len(value) > LABEL_VALUE_MAX:
            return None
        labels.setdefault(_label_name(name), value)
    return tuple(sorted(labels.items()))


@lru_cache(maxsize=NAMES_KEPT)
def _label_name(name: str) -> str:
    label = _NOT_IN_A_LABEL.sub("_", name)
    if label in _TAKEN or label.startswith("__"):
        return f"pushed_{label.lstrip('_')}"
    return f"_{label}" if label[0].isdigit() else label
