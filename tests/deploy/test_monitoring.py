"""deploy/prometheus and deploy/grafana: they parse, and ask for nothing that the page of a broker has not."""

from __future__ import annotations

import functools
import json
import re
import runpy
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from barnabas.embedded import EmbeddedBroker
from barnabas.supervisor.pages import own_lines
from broker.observability.metric_table import METRICS
from relay.metrics import METRICS as RELAY_METRICS
from tests.deploy.promql import grouping_labels, selectors

FOLDER = Path(__file__).parents[2] / "deploy"
PROMETHEUS, GRAFANA = FOLDER / "prometheus", FOLDER / "grafana"
PATIENCE_S = 60
# Prometheus adds these: by the address, by the configuration, and to the samples of a histogram.
ADDED_LABELS = {"job", "instance", "cluster"}
BOUNDS = {"le", "quantile"}


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


RULES = [
    rule
    for name in ("recording.yml", "alerts.yml")
    for group in read_yaml(PROMETHEUS / name)["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
DASHBOARD = json.loads((GRAFANA / "dashboards" / "barnabas.json").read_text(encoding="utf-8"))
QUERIES = {
    f"{panel['title']} {target['refId']} {panel['id']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}
VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
EXPRESSIONS = {
    **{f"alert {name}": rule["expr"] for name, rule in ALERTS.items()},
    **{f"rule {name}": expression for name, expression in RECORDED.items()},
    **{f"panel {name}": expression for name, expression in QUERIES.items()},
}


# --- the page of a broker ---


@functools.cache
def labels_of_the_table() -> dict[str, set[str]]:
    """Samples' names with their labels, of the broker's own table, and of the command that starts several."""
    found: dict[str, set[str]] = {"up": set(), **_labels_of_page("\n".join([*own_lines({0: (True, 0)}), ""]))}
    for metric in (*METRICS, *RELAY_METRICS):
        labels = set(metric.label_names)
        for name, _ in metric.families:
            found[name] = labels | BOUNDS
            found[f"{name}_bucket"] = labels | {"le"}
    return found


@pytest.fixture(scope="module")
def page() -> dict[str, set[str]]:
    """Samples' names with their labels, of a broker with a topic, a group and a transaction."""
    settings = {"barnabas.http.port": 0, "barnabas.lag.interval.ms": 100}
    with EmbeddedBroker({"orders": 1}, settings) as broker, used(broker.bootstrap_servers):
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=PATIENCE_S) as answer:
                found = _labels_of_page(answer.read().decode())
            if "kafka_consumergroup_lag" in found or time.monotonic() > deadline_s:
                return found


@contextmanager
def used(bootstrap_servers: str) -> Iterator[None]:
    """Clients have produced and read, and stay connected."""
    common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    producer = Producer({**common, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(PATIENCE_S)
    consumer = Consumer({**common, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    assert consumer.poll(PATIENCE_S) is not None
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    yield
    consumer.close()
    producer.flush(PATIENCE_S)


def _labels_of_page(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


# Of a member of a cluster, of a command that starts several, of a relay, and of clients that there are none of here.
ONLY_ELSEWHERE = re.compile(
    "barnabas_(supervisor|relay)_.*"
    "|kafka_server_(sessionexpirelistener|replicafetchermanager|zookeeperclientmetrics|authorizer_metrics|quota)_.*"
    "|kafka_server_socket_server_metrics_failed_.*"
    "|kafka_network_requestmetrics_errors_total"
)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_and_label_exists(name: str, page: dict[str, set[str]]) -> None:
    expression = EXPRESSIONS[name]
    known = labels_of_the_table()
    readable: set[str] = set()
    for selector in selectors(expression):
        if selector.metric in RECORDED:
            labels = grouping_labels(RECORDED[selector.metric]) - BOUNDS
        elif ONLY_ELSEWHERE.fullmatch(selector.metric):
            labels = known[selector.metric]
        else:
            assert selector.metric in page, f"{selector.metric} is not on the page"
            labels = page[selector.metric]
        readable |= labels
        assert selector.labels.keys() <= labels | ADDED_LABELS, selector
    assert grouping_labels(expression) <= readable | ADDED_LABELS


def test_what_only_others_have_is_in_the_table() -> None:
    names = {selector.metric for expression in EXPRESSIONS.values() for selector in selectors(expression)}
    assert {name for name in names if ONLY_ELSEWHERE.fullmatch(name)} <= labels_of_the_table().keys()


# --- rules ---


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_what_it_means_and_which_command_comes_next(name: str) -> None:
    from barnabas.commands import root

    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("critical", "warning")
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description"}
    commands = re.findall(r"`barnabas ([a-z]+) ([a-z]+)", annotations["description"])
    assert "Next: " in annotations["description"] and commands
    for first, second in commands:
        group = root.get_command(None, first)  # type: ignore[arg-type]
        assert group is not None or first == "users", first
        if isinstance(group, click.Group):
            assert second in group.list_commands(click.Context(group)), (first, second)
    used = set(re.findall(r"\$labels\.([a-zA-Z_]+)", f"{annotations}"))
    left = grouping_labels(alert["expr"]) | {label for one in selectors(alert["expr"]) for label in _labels_left(one)}
    assert used <= left


def _labels_left(selector: Any) -> set[str]:
    if selector.metric in RECORDED:
        return grouping_labels(RECORDED[selector.metric])
    return labels_of_the_table().get(selector.metric, set()) | ADDED_LABELS


def test_names_of_alerts_and_rules_are_used_once() -> None:
    names = [rule.get("alert", rule.get("record")) for rule in RULES]
    assert len(names) == len(set(names)) and len(ALERTS) > 18


def test_every_alert_has_a_made_up_case_that_fires() -> None:
    cases = read_yaml(PROMETHEUS / "alerts_test.yml")["tests"]
    assert {case["name"] for case in cases} >= ALERTS.keys()


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yml", "recording.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=lambda each: " ".join(each[:2]),
)
def test_promtool_takes_them(arguments: tuple[str, ...]) -> None:
    promtool(*arguments, folder=PROMETHEUS)


def test_promtool_takes_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(QUERIES.values())
    ]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", "queries.yml", folder=tmp_path)


def promtool(*arguments: str, folder: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is needed")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_the_rules_that_are_there() -> None:
    configuration = read_yaml(PROMETHEUS / "prometheus.yml")
    assert all((PROMETHEUS / name).is_file() for name in configuration["rule_files"])
    brokers, clients = configuration["scrape_configs"]
    assert (brokers["job_name"], clients["job_name"]) == ("barnabas", "barnabas-clients")
    assert clients["metrics_path"] == "/metrics/clients" and clients["static_configs"] == brokers["static_configs"]


# --- the dashboard ---


def test_the_dashboard_is_what_the_table_of_panels_says() -> None:
    written = runpy.run_path(str(GRAFANA / "dashboard.py"))["dashboard"]()
    assert written == DASHBOARD, "run `make docs`"


def test_the_dashboard_has_all_groups_of_panels_and_each_panel_a_place() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Cluster", "Brokers", "Topics", "Groups and lag", "Clients' latency", "Storage", "Relay"]
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24 and not cells & taken, panel["title"]
        taken |= cells


def test_the_dashboard_has_no_source_of_its_own() -> None:
    text = json.dumps(DASHBOARD)
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"${datasource}", "barnabas"}
    assert VARIABLES["datasource"]["type"] == "datasource"
    used = set(re.findall(r"\$\{?([a-z]+)\}?(?![a-z_])", text))
    assert used == VARIABLES.keys()
    assert all("$cluster" in expression for expression in QUERIES.values())
    assert not re.search(r"@[a-z]+", " ".join(QUERIES.values()))


def test_the_values_of_variables_come_from_metrics_that_exist(page: dict[str, set[str]]) -> None:
    for name, variable in VARIABLES.items():
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), ([a-z]+)\)", variable["definition"])
            assert match is not None and match[2] == name
            (selector,) = selectors(match[1])
            assert match[2] in page[selector.metric] | ADDED_LABELS


def test_grafana_finds_what_it_is_given() -> None:
    (provider,) = read_yaml(GRAFANA / "provisioning" / "dashboards" / "barnabas.yml")["providers"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
    (source,) = read_yaml(GRAFANA / "provisioning" / "datasources" / "prometheus.yml")["datasources"]
    assert source["type"] == "prometheus" and source["isDefault"] and "uid" not in source
