"""Brokers of ours and Apache Kafka 3.9.1 in one cluster whose brokers log in to each other by SCRAM, in sessions that end.

The users are in ZooKeeper before the first broker starts, written by Apache Kafka's kafka-configs.sh.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.security.tls_files import TlsFiles
from tests.oracle import tools
from tests.oracle.admin import Admin
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]
KINDS = {1: KAFKA, 2: OURS, 3: OURS}
SESSION_MS = 3_000
PACKAGE = "org.apache.kafka.common.security"
LOGIN = 'username="broker" password="broker-secret"'


CLIENTS: dict[int, dict[str, str]] = {}
"""How librdkafka connects to the listener of brokers, by cluster."""


def add(cluster: Cluster, number: int, kind: str, protocol: str, files: TlsFiles) -> None:
    port = lasting_port()
    stores = {} if protocol == "SASL_PLAINTEXT" else files.server(kind="PKCS12" if kind == KAFKA else "PEM")
    broker = cluster.add(number, kind, {
        **stores, "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol}",
        "inter.broker.listener.name": "BROKERS", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required {LOGIN};",
        "listener.name.brokers.plain.sasl.jaas.config": f"{PACKAGE}.plain.PlainLoginModule required user_a=b;",
        "connections.max.reauth.ms": str(SESSION_MS),
    })  # fmt: skip
    broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},BROKERS://localhost:{port}"


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", pytest.param("SASL_SSL", marks=pytest.mark.long)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_java()
    files = TlsFiles(tmp_path_factory.mktemp("tls"))
    with Cluster(()) as made:
        user = ["--zookeeper", made.zookeeper.connect, "--alter", "--entity-type", "users", "--entity-name", "broker"]
        tools.run("configs", [*user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=broker-secret]"])
        for number, kind in KINDS.items():
            add(made, number, kind, request.param, files)
            made.brokers[number].start()
        made.wait_until_known()
        assert made.controller_id == 1
        CLIENTS[id(made)] = {"security.protocol": request.param.lower()}
        if request.param == "SASL_SSL":
            CLIENTS[id(made)]["ssl.ca.location"] = files.path("trust.pem")
        yield made


def produce(cluster: Cluster, topic: str, partition: int, count: int, pause_s: float = 0) -> None:
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(
            topic, b"value %d " % number * 100, partition=partition,
            on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
        )  # fmt: skip
        if pause_s:
            producer.poll(0)
            time.sleep(pause_s)  # the load lasts longer than several sessions
    assert producer.flush(60) == 0
    assert not refused, refused[:3]


def test_all_replicas_follow_all_leaders_over_several_sessions(cluster: Cluster) -> None:
    Admin(cluster).create("spread", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_in_sync("spread")
    for partition in range(3):
        produce(cluster, "spread", partition, 80, 0.05)
        assert all(cluster.isr("spread", index) == {1, 2, 3} for index in range(3))
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


def users(*arguments: str, password: str = "") -> str:
    """Our own command."""
    command = [sys.executable, "-m", "barnabas.cli", "users", *arguments]
    done = subprocess.run(
        command, input=password, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_let_in(cluster: Cluster, number: int, name: str) -> bool:
    port = cluster.brokers[number].settings["listeners"].rpartition(":")[2]
    settings = {
        "bootstrap.servers": f"localhost:{port}", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name,
        "sasl.password": f"{name}-secret", "log_level": "0", **CLIENTS[id(cluster)],
    }  # fmt: skip
    try:
        AdminClient(settings).list_topics(timeout=10)
    except KafkaException:
        return False
    return True


def test_users_of_both_commands_are_let_in_by_both_brokers(cluster: Cluster) -> None:
    at = ("--zookeeper", cluster.zookeeper.connect)
    assert "SCRAM-SHA-512 (8192 iterations)" in users("list", *at)
    users("create", "carol", "--mechanism", "SCRAM-SHA-512", "--password-file", "-", *at, password="carol-secret\n")
    for number in (1, 2):
        assert wait_until(lambda number=number: is_let_in(cluster, number, "carol"), 30)  # type: ignore[misc]
    described = [
        "--zookeeper",
        cluster.zookeeper.connect,
        "--describe",
        "--entity-type",
        "users",
        "--entity-name",
        "carol",
    ]
    assert "SCRAM-SHA-512" in tools.run("configs", described)
    users("delete", "carol", "--execute", "--bootstrap-server", cluster.brokers[2].bootstrap_servers)
    for number in (1, 2):
        assert wait_until(lambda number=number: not is_let_in(cluster, number, "carol"), 30)  # type: ignore[misc]


def test_no_secret_is_in_a_log(cluster: Cluster) -> None:
    for number, kind in KINDS.items():
        if kind == OURS:
            text = cluster.brokers[number].log.read_text()
            assert text and "-secret" not in text and "stored_key" not in text
