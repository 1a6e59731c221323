"""The dashboard of clients asks for nothing that they do not push.

`java-client-metrics-4.3.txt` has what a producer and a consumer of Apache Kafka 4.3.0 have pushed: each line a name and labels;
tests/interop/clients/test_client_metrics.py shows that it is true.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from broker.observability.metric_table import METRICS
from tests.deploy.promql import grouping_labels, selectors

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
PUSHED = {
    name: {"client_id", "client_instance_id", *labels}
    for name, *labels in map(
        str.split, (Path(__file__).parent / "java-client-metrics-4.3.txt").read_text(encoding="utf-8").splitlines()
    )
}
OF_BROKERS = {name: set(metric.label_names) for metric in METRICS for name, _ in metric.families}
ADDED_LABELS = {"job", "instance", "cluster"}
DASHBOARD = json.loads((GRAFANA / "dashboards" / "clients.json").read_text(encoding="utf-8"))
QUERIES = {
    f"{panel['title']} {target['refId']} {panel['id']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}


def test_the_dashboard_is_what_the_table_of_panels_says() -> None:
    assert runpy.run_path(str(GRAFANA / "dashboard.py"))["dashboard"]("clients") == DASHBOARD, "run `make docs`"
    assert set(re.findall(r'"uid": "([^"]*)"', json.dumps(DASHBOARD))) == {"${datasource}", "barnabas-clients"}


@pytest.mark.parametrize("name", QUERIES)
def test_every_metric_and_label_exists(name: str) -> None:
    known = OF_BROKERS | PUSHED
    readable: set[str] = set()
    for selector in selectors(QUERIES[name]):
        assert selector.metric in known, selector
        assert selector.labels.keys() <= known[selector.metric] | ADDED_LABELS, selector
        readable |= known[selector.metric]
    assert grouping_labels(QUERIES[name]) <= readable | ADDED_LABELS
    assert "$cluster" in QUERIES[name] and "@" not in QUERIES[name]


def test_the_values_of_variables_come_from_metrics_that_exist() -> None:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), ([a-z_]+)\)", variable["definition"])
            assert match is not None
            (selector,) = selectors(match[1])
            assert match[2] in PUSHED[selector.metric] | ADDED_LABELS
