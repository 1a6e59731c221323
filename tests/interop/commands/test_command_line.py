"""The command line with Apache Kafka 3.9.1: what the page of everyday questions shows is what that broker is asked and answers,
too. With brokers of ours, tests/tools run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.oracle.kafka import ApacheKafka
from tests.tools.test_operations_page import run_page

pytestmark = [pytest.mark.oracle, pytest.mark.interop]


def test_everyday_questions_about_apache_kafka(tmp_path: Path) -> None:
    need_java()
    settings = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    with ApacheKafka(settings) as kafka:
        run_page(kafka.bootstrap_servers, tmp_path, lacking="client-metrics")
