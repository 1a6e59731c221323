"""The page of metrics of all brokers is one that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from barnabas.supervisor.pages import merged_page, own_lines

PAGE = """# HELP up_ratio A ratio {with braces}.
# TYPE up_ratio gauge
up_ratio 0.5
# HELP sent_total Bytes.
# TYPE sent_total counter
sent_total{topic="a {b} c\u2028"} %d
sent_total{topic="x"} 2
"""


def test_each_metric_is_once_with_the_samples_of_all() -> None:
    page = merged_page({0: PAGE % 1, 2: PAGE % 7 + "# HELP more Only here.\n# TYPE more gauge\nmore NaN\n"}, ["own 1"])
    assert page.count("# TYPE sent_total counter") == page.count("# HELP up_ratio") == 1
    found = {
        (sample.name, sample.labels["broker"], sample.labels.get("topic", "")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "broker" in sample.labels and sample.value == sample.value
    }
    assert found == {
        ("up_ratio", "0", ""): 0.5,
        ("up_ratio", "2", ""): 0.5,
        ("sent_total", "0", "a {b} c\u2028"): 1,
        ("sent_total", "2", "a {b} c\u2028"): 7,
        ("sent_total", "0", "x"): 2,
        ("sent_total", "2", "x"): 2,
    }
    assert page.endswith('more{broker="2"} NaN\nown 1\n')


def test_a_broker_that_is_down_is_said_to_be() -> None:
    page = merged_page({}, own_lines({0: (True, 0), 1: (False, 4)}))
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    assert [(sample.labels["broker"], sample.value) for sample in samples] == [("0", 1), ("1", 0), ("0", 0), ("1", 4)]
