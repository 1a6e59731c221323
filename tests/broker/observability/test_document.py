"""docs/metrics.md is what the tables say, and says where each MBean of Apache Kafka went."""

from __future__ import annotations

import re
from pathlib import Path

from broker.observability.document import page
from broker.observability.metric_table import METRICS

PROCESS = {"process_open_fds", "process_max_fds"}


def test_the_page_is_current() -> None:
    assert (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8") == page(), "make docs"


def test_what_it_names_in_its_text_exists() -> None:
    text = page().partition("## Kafka's MBeans")[0]
    named = set(re.findall(r"`((?:kafka|barnabas|process)_[a-z_]+[a-z])(?:{[^`]*})?`", text))
    assert len(named) > 15
    assert named <= {metric.prometheus_name for metric in METRICS} | PROCESS


def test_every_metric_has_a_line() -> None:
    lines = [line for line in page().splitlines() if line.startswith("| ")]
    for metric in METRICS:
        found = [line for line in lines if f" `{metric.prometheus_name}" in line and metric.doc in line]
        assert found, metric.prometheus_name
