"""What a push unfolds to, and what is left out of it."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from broker.telemetry import unfolding
from broker.telemetry.unfolding import FamilyKind, Left, Point, PushedResource, Value, unfold
from tests.doubles.otlp import CUMULATIVE, DELTA, counter, gauge, histogram, pushed


def unfolded(data: bytes) -> list[object]:
    return [item for item in unfold(data) if item is not None]


def points(*metrics: Metric) -> list[object]:
    return unfolded(pushed(*metrics))[1:]


@pytest.mark.parametrize(
    ("metric", "family", "kind", "values", "is_delta"),
    [
        (gauge("org.apache.kafka.rate", 1.5), "org_apache_kafka_rate", FamilyKind.GAUGE, (1.5,), False),
        (counter("org.apache.kafka.total", 7), "org_apache_kafka_total", FamilyKind.COUNTER, (7,), True),
        (counter("org.apache.kafka.a", 7, CUMULATIVE), "org_apache_kafka_a_total", FamilyKind.COUNTER, (7,), False),
        (counter("a", -7, DELTA, is_monotonic=False), "client_a", FamilyKind.GAUGE, (-7,), True),
        (counter("9-a", 7, CUMULATIVE, is_monotonic=False), "client_9_a", FamilyKind.GAUGE, (7,), False),
    ],
)
def test_numbers(metric: Metric, family: str, kind: FamilyKind, values: tuple[float, ...], is_delta: bool) -> None:
    (point,) = points(metric)
    assert isinstance(point, Point)
    assert (point.family, point.kind, point.is_delta) == (family, kind, is_delta)
    assert tuple(each.value for each in point.values) == values


def test_a_histogram_is_sums_of_buckets() -> None:
    (point,) = points(histogram("h", [0.5, 10], [1, 2, 3], 40.5))
    assert isinstance(point, Point)
    assert point.values == (
        Value("_bucket", "0.5", 1), Value("_bucket", "10", 3), Value("_bucket", "+Inf", 6), Value("_sum", "", 40.5),
        Value("_count", "", 6),
    )  # fmt: skip


def test_labels_and_what_a_client_says_of_itself() -> None:
    metric = gauge("m", 1, **{"topic": "t", "node.id": "1", "broker": "9", "__x": "y", "le": "z"})
    resource, point = unfolded(pushed(metric, group_id="g", client_rack="r"))
    assert resource == PushedResource((("client_rack", "r"), ("group_id", "g")))
    assert isinstance(point, Point)
    assert point.labels == (
        ("node_id", "1"), ("pushed_broker", "9"), ("pushed_le", "z"), ("pushed_x", "y"), ("topic", "t"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (gauge("", 1), Left.NAME),
        (gauge("x" * 201, 1), Left.NAME),
        (Metric(name="nothing"), Left.KIND),
        (counter("c", -1), Left.VALUE),
        (counter("c", math.nan), Left.VALUE),
        (counter("c", math.inf, is_monotonic=False), Left.VALUE),
        (gauge("g", 1, **{f"l{number}": "x" for number in range(17)}), Left.LABELS),
        (gauge("g", 1, topic="x" * 257), Left.LABELS),
        (gauge("g", 1, **{"x" * 65: "y"}), Left.LABELS),
        (gauge("g", 1, **{"": "y"}), Left.LABELS),
        (histogram("h", [2, 1], [1, 1, 1], 1), Left.VALUE),
        (histogram("h", [1], [1, 1, 1], 1), Left.VALUE),
        (histogram("h", [1], [1, 1], -1), Left.VALUE),
        (gauge("g", 1, **{f"label{number}": "x" * 50_000 for number in range(3)}), Left.SIZE),
    ],
)
def test_what_is_left_out(metric: Metric, reason: Left) -> None:
    assert points(metric, gauge("after", 1))[0] is reason
    assert len(points(metric, gauge("after", 1))) == 2


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05\x00", b"\x0b", b"\x0a\x02\x12\x05", b"\xff" * 20, b"\x0a\x04\x12\x02\x12\x05", b"no protobuf"]
)  # fmt: skip
def test_what_is_no_protobuf(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unfolded(data)


def test_fields_that_nobody_knows_are_passed_over() -> None:
    more = b"\x18\x80\x80\x01" + b"\x21" + bytes(8) + b"\x2d" + bytes(4) + b"\x32\x03abc"
    assert len(unfolded(more + pushed(gauge("g", 1)) + more)) == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_unfolded_or_refused(data: bytes) -> None:
    """A step is bounded: no more steps than bytes."""
    with suppress(ValueError):
        assert sum(1 for _ in unfold(data)) <= len(data)


@given(st.binary(max_size=60))
def test_a_metric_of_any_bytes_is_unfolded_or_refused(data: bytes) -> None:
    scope = b"\x12" + bytes([len(data)]) + data
    resource = b"\x12" + bytes([len(scope)]) + scope
    with suppress(ValueError):
        unfolded(b"\x0a" + bytes([len(resource)]) + resource)


def test_names_of_families() -> None:
    names = {
        "org.apache.kafka.b-c": "org_apache_kafka_b_c", "0": "client_0", "ä:b": "client__:b", "": None,
        "x" * 200: f"client_{'x' * 200}", "kafka.controller.x": "client_kafka_controller_x",
        "barnabas.client.info": "client_barnabas_client_info",
    }  # fmt: skip
    assert {name: unfolding.family_name(name) for name in names} == names
