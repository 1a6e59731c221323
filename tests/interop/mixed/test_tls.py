"""Brokers of ours and Apache Kafka 3.9.1 in one cluster whose brokers speak TLS with each other, each with a certificate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.security.tls_files import TlsFiles
from tests.oracle.admin import Admin
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.ports import lasting_port

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]
KINDS = {1: KAFKA, 2: OURS, 3: OURS}


def add(cluster: Cluster, number: int, kind: str, files: TlsFiles) -> None:
    """A member that checks the others' names, and asks for their certificates."""
    port = lasting_port()
    broker = cluster.add(number, kind, {
        **files.server(kind="PKCS12" if kind == KAFKA else "PEM"),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
        "inter.broker.listener.name": "BROKERS", "listener.name.brokers.ssl.client.auth": "required",
        "ssl.endpoint.identification.algorithm": "https",
    })  # fmt: skip
    broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},BROKERS://localhost:{port}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_java()
    files = TlsFiles(tmp_path_factory.mktemp("tls"))
    with Cluster(()) as made:
        for number, kind in KINDS.items():
            add(made, number, kind, files)
            made.brokers[number].start()
        made.wait_until_known()
        assert made.controller_id == 1
        yield made


def produce(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(
            topic, b"value %d " % number * 100, partition=partition,
            on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
        )  # fmt: skip
    assert producer.flush(60) == 0
    assert not refused, refused[:3]


def test_all_replicas_follow_all_leaders(cluster: Cluster) -> None:
    Admin(cluster).create("spread", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for partition in range(3):
        produce(cluster, "spread", partition, 500)
    cluster.wait_in_sync("spread")
    assert_equal_logs(cluster, "spread")


def test_either_controller_reaches_the_other_kind(cluster: Cluster) -> None:
    """A broker of ours controls once Apache Kafka's has stopped, and takes it back."""
    cluster.brokers[1].stop()
    cluster.wait_for("one of ours controls", lambda: cluster.controller_id in (2, 3))
    Admin(cluster).create("under-ours", {0: [2, 3], 1: [3, 2]})
    cluster.brokers[1].start()
    cluster.wait_until_known()
    Admin(cluster).create("with-kafka", {0: [1, 2, 3], 1: [2, 1, 3]})
    for topic in ("under-ours", "with-kafka"):
        for partition in (0, 1):
            produce(cluster, topic, partition, 100)
    cluster.wait_in_sync("under-ours", "with-kafka")
    assert_equal_logs(cluster, "with-kafka")
