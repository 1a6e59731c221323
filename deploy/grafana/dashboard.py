"""The dashboards of Grafana, written from tables of panels: `make docs`, or

    python deploy/grafana/dashboard.py > deploy/grafana/dashboards/barnabas.json
    python deploy/grafana/dashboard.py clients > deploy/grafana/dashboards/clients.json

The first is about the cluster (panels.toml), the second about its clients, by what they push (clients.toml).
Rules: the data source, the cluster, brokers, topics, groups and clients are variables of the dashboards; no query names one.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
SIZES = {"stat": (4, 4), "table": (8, 8), "timeseries": (8, 8)}
"""Width and height by the kind of panel."""
_BROKER = 'cluster=~"$cluster", instance=~"$instance"'
_PLACES = {
    "@cluster": 'cluster=~"$cluster"',
    "@broker": _BROKER,
    "@topic": f'{_BROKER}, topic=~"$topic"',
    "@group": f'{_BROKER}, group=~"$group"',
    "@client": f'{_BROKER}, client_id=~"$client"',
    "@rate": "$__rate_interval",
}


_DASHBOARDS = {
    "barnabas": (
        "barnabas",
        "Barnabas",
        "panels.toml",
        (
            ("cluster", "Cluster", "label_values(kafka_server_replicamanager_leadercount, cluster)"),
            ("instance", "Broker", "label_values(kafka_server_replicamanager_leadercount{@cluster}, instance)"),
            ("topic", "Topic", "label_values(kafka_log_log_size{@cluster}, topic)"),
            ("group", "Group", "label_values(kafka_consumergroup_lag{@cluster}, group)"),
        ),
    ),
    "clients": (
        "barnabas-clients",
        "Barnabas: clients",
        "clients.toml",
        (
            ("cluster", "Cluster", "label_values(barnabas_client_info, cluster)"),
            ("instance", "Broker", "label_values(barnabas_client_info{@cluster}, instance)"),
            ("client", "Client", "label_values(barnabas_client_info{@broker}, client_id)"),
        ),
    ),
}
"""By its name: its id, its title, the table of its panels, and its variables: name, label and query."""


def dashboard(name: str = "barnabas") -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    uid, title, table, variables = _DASHBOARDS[name]
    panels: list[dict[str, Any]] = []
    y = 0
    for row in tomllib.loads(Path(__file__).with_name(table).read_text(encoding="utf-8"))["row"]:
        panels.append(_row(row["title"], len(panels) + 1, y))
        x, y, height = 0, y + 1, 0
        for panel in row["panels"]:
            made = _panel(panel, len(panels) + 1)
            place = made["gridPos"]
            if x + place["w"] > COLUMNS:
                x, y = 0, y + height
            place.update(x=x, y=y)
            x, height = x + place["w"], place["h"]
            panels.append(made)
        y += height
    return {
        "uid": uid, "title": title, "tags": ["barnabas", "kafka"], "schemaVersion": 39, "version": 1,
        "editable": True, "timezone": "browser", "refresh": "30s", "time": {"from": "now-3h", "to": "now"}, "graphTooltip": 1,
        "templating": {"list": _variables(variables)}, "annotations": {"list": []}, "links": [], "panels": panels,
    }  # fmt: skip


def _variables(rows: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    return [source, *(_variable(*row) for row in rows)]


def _variable(name: str, label: str, expression: str) -> dict[str, Any]:
    query = _filled(expression)
    return {
        "name": name, "label": label, "type": "query", "datasource": DATASOURCE, "definition": query,
        "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
        "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _filled(expression: str) -> str:
    for word, text in _PLACES.items():
        expression = expression.replace(word, text)
    return expression


def _row(title: str, number: int, y: int) -> dict[str, Any]:
    place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}


def _panel(panel: dict[str, Any], number: int) -> dict[str, Any]:
    kind = panel.get("kind", "timeseries")
    width, height = SIZES[kind]
    defaults: dict[str, Any] = {"unit": panel.get("unit", "short")}
    options: dict[str, Any] = {}
    if kind == "stat":
        red = [{"color": "red", "value": panel["bad"]}] if "bad" in panel else []
        defaults["thresholds"] = {"mode": "absolute", "steps": [{"color": "green", "value": None}, *red]}
        options = {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    elif kind == "timeseries":
        stacking = {"mode": "normal" if panel.get("is_stacked") else "none"}
        defaults["custom"] = {"fillOpacity": 10, "stacking": stacking}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {
        "id": number, "type": kind, "title": panel["title"], "description": panel.get("doc", ""), "datasource": DATASOURCE,
        "gridPos": {"h": height, "w": panel.get("width", width)}, "options": options,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_target(kind, *query, index) for index, query in enumerate(panel["queries"])],
    }  # fmt: skip


def _target(kind: str, expression: str, legend: str, index: int) -> dict[str, Any]:
    is_range = kind == "timeseries"
    made = {
        "datasource": DATASOURCE, "refId": chr(ord("A") + index), "expr": _filled(expression), "legendFormat": legend,
        "instant": not is_range, "range": is_range,
    }  # fmt: skip
    return made | {"format": "table"} if kind == "table" else made


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dashboard(*sys.argv[1:]), indent=1) + "\n")
