"""Java and librdkafka clients push their metrics, which Prometheus's own parser reads at /metrics/clients."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from barnabas import EmbeddedBroker
from tests.deploy.test_client_dashboard import PUSHED
from tests.differential.newer.client_metrics import altering
from tests.differential.wire import Wire
from tests.interop.clients.java_clients import JavaClients
from tests.interop.conftest import need_java
from tests.interop.groups.members import NEWEST_JAVA
from tests.oracle.process import wait_until

pytestmark = pytest.mark.interop

PATIENCE_S = 60
INTERVAL_MS = 200
RECORDS = 40
SENT = "org_apache_kafka_producer_record_send_total"
CONSUMED = "org_apache_kafka_consumer_fetch_manager_records_consumed_total"
INFO = "barnabas_client_info"


class Page:
    """/metrics/clients of a broker whose only subscription asks every client for everything."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.address = broker.http_address
        host, _, port = self.bootstrap.split(",")[0].partition(":")
        wire = Wire(host, int(port))
        answer = wire.ask(altering("all", {"metrics": "*", "interval.ms": str(INTERVAL_MS)}), 1)
        wire.close()
        assert answer.responses[0].error_code == 0, answer
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)

    def samples(self, client_id: str) -> dict[str, list[tuple[dict[str, str], float]]]:
        """The samples of a client by the name of the metric: labels and value."""
        with urllib.request.urlopen(f"http://{self.address}/metrics/clients", timeout=PATIENCE_S) as response:
            text = response.read().decode()
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.labels["client_id"] == client_id:
                    found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def value(self, client_id: str, name: str) -> float:
        """That of all topics; 0 without any."""
        return sum(value for labels, value in self.samples(client_id).get(name, ()) if "topic" not in labels)

    def until(self, client_id: str, name: str, value: float) -> None:
        assert wait_until(lambda: self.value(client_id, name) == value, PATIENCE_S), self.samples(client_id)

    def info(self, client_id: str) -> dict[str, str]:
        ((labels, _),) = self.samples(client_id)[INFO]
        return labels


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    settings = {"barnabas.http.port": 0, "barnabas.initial.features": "newest"}
    with EmbeddedBroker(settings=settings) as broker:
        yield Page(broker)


def test_librdkafka(page: Page) -> None:
    producer = Producer({"bootstrap.servers": page.bootstrap, "client.id": "c-producer"})
    config: dict[str, Any] = {"bootstrap.servers": page.bootstrap, "client.id": "c-consumer", "group.id": "g"}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])

    def is_shown() -> bool:
        producer.produce("t", b"value")
        producer.poll(0.1)
        consumer.poll(0.1)
        samples = page.samples("c-producer") | page.samples("c-consumer")
        return {
            "org_apache_kafka_producer_node_request_latency_max",
            "org_apache_kafka_consumer_coordinator_assigned_partitions",
        } <= samples.keys()

    try:
        assert wait_until(is_shown, PATIENCE_S)
        by_broker = page.samples("c-producer")["org_apache_kafka_producer_node_request_latency_max"]
        assert "0" in {labels["node_id"] for labels, _ in by_broker}
        assert page.info("c-producer")["client_software_name"] == "confluent-kafka-python"
        assert wait_until(lambda: page.info("c-consumer").get("group_id") == "g", PATIENCE_S)
    finally:
        consumer.close()
        producer.flush(PATIENCE_S)


@pytest.mark.long
def test_a_client_pushes_to_another_broker_when_its_own_is_gone() -> None:
    """And the subscription is there after each start."""
    settings = {"barnabas.http.port": 0, "barnabas.initial.features": "newest"}
    with EmbeddedBroker(settings=settings, brokers=3) as cluster:
        page = Page(cluster)
        producer = Producer({"bootstrap.servers": page.bootstrap, "client.id": "moving"})

        def brokers() -> set[str]:
            """Those that have series of the client, and what they are told now."""
            producer.produce("t", b"value")
            producer.poll(0.1)
            return {labels["broker"] for labels, _ in page.samples("moving").get(INFO, ())}

        assert wait_until(lambda: bool(brokers()), PATIENCE_S)
        for _ in range(2):
            (first, *_) = before = sorted(brokers())
            cluster.kill(int(first))
            assert wait_until(lambda gone=first: bool(brokers() - {gone}), PATIENCE_S), before  # type: ignore[misc]
            cluster.restart(int(first))
        assert producer.flush(PATIENCE_S) == 0


@pytest.mark.oracle
def test_java(page: Page, tmp_path: Path) -> None:
    """What it counts it pushes as what was added, so that sums show whether each push is taken once."""
    need_java()
    common = {"bootstrap.servers": page.bootstrap}
    with JavaClients(NEWEST_JAVA, tmp_path / "log") as jvm:
        jvm.ask("p", "producer", config={**common, "client.id": "java-producer"})
        for _ in range(2):
            jvm.ask("p", "send", topic="t", partition=0, values=[str(number) for number in range(RECORDS)])
            page.until("java-producer", SENT, page.value("java-producer", SENT) or RECORDS)
        page.until("java-producer", SENT, 2 * RECORDS)
        config = {**common, "client.id": "java-consumer", "group.id": "java", "auto.offset.reset": "latest"}
        jvm.ask("c", "consumer", config={**config, "enable.auto.commit": "false"})
        jvm.ask("c", "subscribe", topic="t")
        assert wait_until(lambda: jvm.ask("c", "poll", timeout_ms=200) == [] and jvm.ask("c", "assignment"), PATIENCE_S)
        jvm.ask("p", "send", topic="t", partition=0, values=["x"] * RECORDS)
        read: list[Any] = []
        assert wait_until(lambda: read.extend(jvm.ask("c", "poll", timeout_ms=200)) or len(read) == RECORDS, PATIENCE_S)
        jvm.ask("c", "close consumer")  # its last push has what it has consumed
        page.until("java-consumer", CONSUMED, RECORDS)
        info = page.info("java-consumer")
        assert (info["client_software_name"], info["client_software_version"]) == ("apache-kafka-java", NEWEST_JAVA)
        assert info["group_id"] == "java" and "client_source_address" in info
        assert page.samples("java-producer").keys() | page.samples("java-consumer").keys() >= PUSHED.keys()
