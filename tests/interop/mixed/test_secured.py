"""Brokers of ours and Apache Kafka 3.9.1 in one cluster whose brokers speak TLS with each other, with certificates, or log in
to each other: by SCRAM, in sessions that end, or by bearer tokens. The controller is of either kind.

Users of SCRAM are in ZooKeeper before the first broker starts, written by Apache Kafka's kafka-configs.sh.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.security.tls_files import TlsFiles
from tests.interop.security.token_broker import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, SECURITY
from tests.oracle import tools
from tests.oracle.admin import Admin
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.security.sasl.bearer_tokens import document, rsa_key, rsa_row, signed

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]
KINDS = {1: KAFKA, 2: OURS, 3: OURS}
SESSION_MS = 3_000
LOGIN = 'username="broker" password="broker-secret"'
LISTENER = "listener.name.brokers"

Settings = Callable[[TlsFiles, str], dict[str, str]]


def tls(files: TlsFiles, kind: str) -> dict[str, str]:
    """A member that checks the others' names, and asks for their certificates."""
    return files.server(kind="PKCS12" if kind == KAFKA else "PEM") | {
        f"{LISTENER}.ssl.client.auth": "required", "ssl.endpoint.identification.algorithm": "https",
    }  # fmt: skip


def scram(files: TlsFiles, kind: str) -> dict[str, str]:
    return files.server(kind="PKCS12" if kind == KAFKA else "PEM") | {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{LISTENER}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        f"{LISTENER}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {LOGIN};",
        f"{LISTENER}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required user_a=b;",
        "connections.max.reauth.ms": str(SESSION_MS),
    }  # fmt: skip


def bearer_token(files: TlsFiles, kind: str) -> dict[str, str]:
    keys, token, now_s = files.folder / "keys.json", files.folder / "token", int(time.time())
    keys.write_bytes(document(rsa_row(rsa_key(), kid="one")))
    token.write_text(signed(rsa_key(), key_id="one", sub="broker", iat=now_s, exp=now_s + 3600))
    handlers, prefix = f"{SECURITY}.oauthbearer.OAuthBearer", f"{LISTENER}.oauthbearer.sasl"
    return {
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER", f"{LISTENER}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.jaas.config": f"{OAUTH_MODULE} required;",
        f"{prefix}.login.callback.handler.class": f"{handlers}LoginCallbackHandler",
        f"{prefix}.server.callback.handler.class": f"{handlers}ValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(), "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
    }  # fmt: skip


SITUATIONS: dict[str, tuple[str, Settings]] = {
    "TLS": ("SSL", tls), "SCRAM": ("SASL_PLAINTEXT", scram), "SCRAM over TLS": ("SASL_SSL", scram),
    "bearer token": ("SASL_PLAINTEXT", bearer_token),
}  # fmt: skip
OF_SCRAM = ["SCRAM", pytest.param("SCRAM over TLS", marks=pytest.mark.long)]
ALL = ["TLS", *OF_SCRAM, pytest.param("bearer token", marks=pytest.mark.long)]


class SecuredCluster(Cluster):
    """`client` are the settings of librdkafka for the brokers' listener."""

    def __init__(self, folder: Path, situation: str) -> None:
        super().__init__(())
        self.situation = situation
        self._files = TlsFiles(folder)
        self._protocol, self._settings = SITUATIONS[situation]
        self.client = {"security.protocol": self._protocol.lower()}
        if self._protocol == "SASL_SSL":
            self.client["ssl.ca.location"] = self._files.path("trust.pem")

    def start_brokers(self) -> None:
        if self._settings is scram:
            user = [
                "--zookeeper",
                self.zookeeper.connect,
                "--alter",
                "--entity-type",
                "users",
                "--entity-name",
                "broker",
            ]
            tools.run("configs", [*user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=broker-secret]"])
        for number, kind in KINDS.items():
            broker = self.add(number, kind, self._settings(self._files, kind) | {
                "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{self._protocol}",
                "inter.broker.listener.name": "BROKERS",
            })  # fmt: skip
            port = lasting_port()
            broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},BROKERS://localhost:{port}"
            broker.start()
        self.wait_until_known()
        assert self.controller_id == 1


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    need_java()
    with SecuredCluster(tmp_path_factory.mktemp("tls"), request.param) as made:
        made.start_brokers()
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
            time.sleep(pause_s)
    assert producer.flush(60) == 0
    assert not refused, refused[:3]


@pytest.mark.parametrize("cluster", ALL, indirect=True)
def test_all_replicas_follow_all_leaders(cluster: SecuredCluster) -> None:
    """Over several sessions, where they end."""
    count, pause_s = (80, 0.05) if cluster.situation.startswith("SCRAM") else (500, 0)
    Admin(cluster).create("spread", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_in_sync("spread")
    for partition in range(3):
        produce(cluster, "spread", partition, count, pause_s)
        assert not pause_s or all(cluster.isr("spread", index) == {1, 2, 3} for index in range(3))
    cluster.wait_in_sync("spread")
    assert_equal_logs(cluster, "spread")


@pytest.mark.parametrize("cluster", ALL, indirect=True)
def test_either_controller_reaches_the_other_kind(cluster: SecuredCluster) -> None:
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


def is_let_in(cluster: SecuredCluster, number: int, name: str) -> bool:
    port = cluster.brokers[number].settings["listeners"].rpartition(":")[2]
    settings = {
        "bootstrap.servers": f"localhost:{port}", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name,
        "sasl.password": f"{name}-secret", "log_level": "0", **cluster.client,
    }  # fmt: skip
    try:
        AdminClient(settings).list_topics(timeout=10)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("cluster", OF_SCRAM, indirect=True)
def test_users_of_both_commands_are_let_in_by_both_brokers(cluster: SecuredCluster) -> None:
    at = ("--zookeeper", cluster.zookeeper.connect)
    assert "SCRAM-SHA-512 (8192 iterations)" in users("list", *at)
    users("create", "carol", "--mechanism", "SCRAM-SHA-512", "--password-file", "-", *at, password="carol-secret\n")
    for number in (1, 2):
        assert wait_until(lambda number=number: is_let_in(cluster, number, "carol"), 30)  # type: ignore[misc]
    described = tools.run("configs", [*at, "--describe", "--entity-type", "users", "--entity-name", "carol"])
    assert "SCRAM-SHA-512" in described
    users("delete", "carol", "--execute", "--bootstrap-server", cluster.brokers[2].bootstrap_servers)
    for number in (1, 2):
        assert wait_until(lambda number=number: not is_let_in(cluster, number, "carol"), 30)  # type: ignore[misc]


@pytest.mark.parametrize("cluster", OF_SCRAM, indirect=True)
def test_no_secret_is_in_a_log(cluster: SecuredCluster) -> None:
    for number, kind in KINDS.items():
        if kind == OURS:
            text = cluster.brokers[number].log.read_text()
            assert text and "-secret" not in text and "stored_key" not in text
