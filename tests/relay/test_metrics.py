"""The figures of a relay: a page that Prometheus reads, and each of them explained."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from relay.figures import RelayFigures
from relay.metrics import COUNTERS, METRICS, STATES, RelayState, samples
from runtime.loop_times import LoopTimes
from runtime.monitoring.exposition import page_text


def test_the_page() -> None:
    figures = RelayFigures(delivered=3, aborts=1)
    figures.add_late([0, 7, 80])
    page = page_text(samples(figures, RelayState(True, 2, 1, 4, 5_000_000, 1, 1.5), LoopTimes()))
    values = {
        (each.name.removeprefix("barnabas_relay_"), each.labels.get("le", "")): each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
    }
    assert values["delivered_total", ""] == 3
    assert values["aborts_total", ""] == 1
    assert values["ready", ""] == 1
    assert values["suspended_rules", ""] == 1
    assert values["waiting_records", ""] == 5_000_000
    assert values["overdue_seconds", ""] == 1.5
    assert values["lateness_seconds_bucket", "0.005"] == 1
    assert values["lateness_seconds_bucket", "0.01"] == 2
    assert values["lateness_seconds_count", ""] == 3
    assert values["lateness_seconds_sum", ""] == 0.087


def test_every_field_has_a_metric_and_every_metric_a_place_in_the_docs() -> None:
    assert list(COUNTERS) == [each.name for each in fields(RelayFigures) if each.name != "lateness"]
    assert tuple(STATES) == RelayState._fields
    page = (Path(__file__).parents[2] / "docs" / "relay.md").read_text(encoding="utf-8")
    assert [each.prometheus_name for each in METRICS if f"`{each.prometheus_name}`" not in page] == []
