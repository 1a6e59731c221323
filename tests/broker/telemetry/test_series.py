"""The series of clients: added up, dropped, forgotten, bounded; and their page, which Prometheus's own parser reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.telemetry.series import Limits, Series
from broker.telemetry.subscriptions import Asked
from broker.telemetry.unfolding import Left, unfold
from tests.doubles.otlp import CUMULATIVE, counter, gauge, histogram, pushed

INTERVAL_MS = 60_000
ROOMY = Limits(clients=10, series_of_client=100, names=20, size_bytes=1_000_000, age_max_ms=10_000_000)
EVERYTHING = Asked(1, 1, ("*",), INTERVAL_MS)


class World:
    def __init__(self, limits: Limits = ROOMY) -> None:
        self.series = Series(limits)
        self.now_ms = 1_000_000

    def push(
        self, *metrics: Metric, client: int = 1, asked: Asked = EVERYTHING, is_last: bool = False, **resource: str
    ) -> bool:
        facts = (("client_software_name", "java"), ("principal", "User:a"))
        taken = self.series.begin(bytes([client]) * 16, f"app{client}", facts, self.now_ms)
        if taken is None:
            return False
        for item in unfold(pushed(*metrics, **resource)):
            taken.take(item, asked)
        self.series.end(taken, asked, self.now_ms, is_last=is_last)
        return True

    def page(self) -> str:
        self.series.forget_old(self.now_ms)
        return "".join(self.series.page())

    def values(self) -> dict[tuple[str, str], float]:
        """The values by name, without what all of them begin with, and client, as Prometheus reads them."""
        return {
            (
                sample.name.removeprefix("client_"),
                sample.labels["client_id"] + sample.labels.get("le", ""),
            ): sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
            if family.name != "barnabas_client_info"
        }


def test_deltas_add_up_and_the_rest_is_replaced() -> None:
    world = World()
    for value in (5, 7):
        world.push(
            gauge("g", value),
            counter("c.total", value),
            counter("s", value, CUMULATIVE),
            histogram("h", [1], [1, 1], value),
        )
    assert world.values() == {
        ("g", "app1"): 7, ("c_total", "app1"): 12, ("s_total", "app1"): 7, ("h_bucket", "app11"): 2,
        ("h_bucket", "app1+Inf"): 4, ("h_sum", "app1"): 12, ("h_count", "app1"): 4,
    }  # fmt: skip


def test_what_a_client_does_not_push_any_more_is_dropped() -> None:
    world = World()
    world.push(gauge("g", 1), counter("c", 1))
    for _ in range(2):
        world.push(gauge("other", 1))
        assert set(world.values()) == {("other", "app1"), ("c_total", "app1")}
    world.push(gauge("other", 1))
    assert set(world.values()) == {("other", "app1")}
    assert (len(world.series), world.series.names_count) == (1, 1)


def test_a_client_goes_with_its_last_push_and_with_its_silence() -> None:
    world = World()
    world.push(gauge("g", 1), client=1)
    world.push(gauge("g", 2), client=2, is_last=True)
    world.now_ms += 59_999
    assert set(world.values()) == {("g", "app1"), ("g", "app2")}
    world.now_ms += 10_000
    assert set(world.values()) == {("g", "app1")}
    world.now_ms += 3 * INTERVAL_MS
    assert world.page() == ""
    assert (len(world.series), world.series.size_bytes, world.series.clients_count) == (0, 0, 0)


def test_silence_is_bounded_by_the_setting() -> None:
    world = World(Limits(10, 10, 10, 1_000_000, age_max_ms=90_000))
    world.push(gauge("g", 1), asked=Asked(1, 1, ("*",), 3_600_000))
    world.now_ms += 90_000
    assert world.page() == ""


def test_what_is_known_of_a_client() -> None:
    world = World()
    world.push(gauge("g", 1), group_id="orders", principal="User:liar")
    (line,) = [line for line in world.page().splitlines() if line.startswith("barnabas_client_info")]
    assert line == (
        'barnabas_client_info{client_id="app1",client_instance_id="AQEBAQEBAQEBAQEBAQEBAQ",client_software_name="java",'
        'principal="User:a",group_id="orders"} 1'
    )


def test_texts_of_clients_cannot_end_a_line() -> None:
    world = World()
    metric = gauge("g", 1, topic='a"} 1\nevil 2\\')
    metric.description = "one\ntwo\\"
    world.push(metric)
    (family,) = [each for each in text_string_to_metric_families(world.page()) if each.name == "client_g"]
    assert family.samples[0].labels["topic"] == 'a"} 1\nevil 2\\'
    assert "evil" not in [each.name for each in text_string_to_metric_families(world.page())]


def test_what_was_not_asked_for_is_not_kept() -> None:
    world = World()
    world.push(gauge("org.a", 1), gauge("com.a", 1), asked=Asked(1, 1, ("org.",), INTERVAL_MS))
    assert set(world.values()) == {("org_a", "app1")}
    assert world.series.left == {Left.NOT_ASKED: 1}


def test_one_name_has_one_kind() -> None:
    world = World()
    world.push(gauge("a.total", 1), counter("a", 1), client=1)
    world.push(histogram("h", [], [], 1), gauge("h.count", 1), client=1)
    assert world.series.left == {Left.KIND: 2}
    world.push(client=1)
    assert ("h_count", "app1") in world.values()


def gauges(count: int) -> list[Metric]:
    return [gauge(f"g{number}", 1) for number in range(count)]


@pytest.mark.parametrize(
    ("limits", "fill", "reason"),
    [
        (Limits(2, 100, 100, 1_000_000, 60_000), lambda world, n: world.push(gauge("g", 1), client=n), Left.CLIENTS),
        (Limits(99, 2, 100, 1_000_000, 60_000), lambda world, n: world.push(*gauges(n)), Left.SERIES_OF_CLIENT),
        (Limits(99, 100, 2, 1_000_000, 60_000), lambda world, n: world.push(*gauges(n)), Left.NAMES),
        (Limits(99, 100, 100, 900, 60_000), lambda world, n: world.push(gauge("g", 1), client=n), Left.MEMORY),
    ],
)  # fmt: skip
def test_limits(limits: Limits, fill: Callable[[World, int], bool], reason: Left) -> None:
    world = World(limits)
    for number in range(1, 11):
        fill(world, number)
    assert len(world.series) == 2
    assert set(world.series.left) == {reason}
    assert len(world.values()) == 2


def test_a_billion_values_of_a_label_take_what_one_client_may_have() -> None:
    world = World()
    for start in range(0, 2_000, 100):
        world.push(*(gauge("g", 1, user=str(number)) for number in range(start, start + 100)))
        assert len(world.series) <= ROOMY.series_of_client
        assert world.series.size_bytes <= ROOMY.series_of_client * 600
