"""Clusters on the store server in the place of ZooKeeper: of Apache Kafka 3.9.1 alone, and with brokers of ours among it; with
access lists and SASL towards the store as well. And the shell of ZooKeeper on it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kazoo.client import KazooClient

from tests.interop.conftest import need_java
from tests.oracle import java
from tests.oracle.admin import Admin
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.kafka import KafkaServer
from tests.oracle.store_server import StoreServerProcess

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
SESSION = {"zookeeper.session.timeout.ms": "18000", "zookeeper.connection.timeout.ms": "60000"}
SECURE = {"zookeeper.set.acl": "true"}
TO_STORE = {"barnabas.zookeeper.sasl.username": "broker", "barnabas.zookeeper.sasl.password": "secret"}
RECORDS = 200


@pytest.fixture(autouse=True)
def _java() -> None:
    need_java()


@contextmanager
def cluster_on_store(
    kinds: tuple[str, ...], folder: Path, *, is_secure: bool
) -> Iterator[tuple[Cluster, StoreServerProcess]]:
    users = {"barnabas.sasl.user.broker": "secret"} if is_secure else {}
    store = StoreServerProcess(folder, users)
    jaas = folder / "client.jaas"
    jaas.write_text(f'Client {{ {MODULE} required username="broker" password="secret"; }};')
    settings = {
        **SESSION,
        "default.replication.factor": str(len(kinds)),
        "offsets.topic.replication.factor": str(len(kinds)),
        "min.insync.replicas": "1",
        **(SECURE if is_secure else {}),
    }
    cluster = Cluster((), settings=settings, store=store)
    for number, kind in enumerate(kinds, 1):
        broker = cluster.add(number, kind, TO_STORE if is_secure and kind == OURS else {})
        if is_secure and isinstance(broker, KafkaServer):
            broker.environment = {"JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={jaas}"}
    with cluster:
        yield cluster, store


def produce(cluster: Cluster, topic: str) -> None:
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda error, _: refused.append(str(error)) if error else None
        )
    assert producer.flush(60) == 0 and not refused, refused[:3]


def consumed(cluster: Cluster, topic: str, group: str, count: int) -> int:
    """How many records a member of `group` reads: it stops at `count`."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = 0
    try:
        while found < count:
            messages = consumer.consume(count - found, 60)
            assert messages, f"{found} of {count} records"
            found += sum(message.error() is None for message in messages)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(
    ("kinds", "is_secure"),
    [
        pytest.param((KAFKA, KAFKA), False, id="Apache Kafka"),
        pytest.param((KAFKA, OURS, KAFKA), True, id="mixed, with access lists"),
        pytest.param((KAFKA, KAFKA), True, id="Apache Kafka, with access lists", marks=pytest.mark.long),
    ],
)
def test_a_cluster_lives_on_the_store_server(tmp_path: Path, kinds: tuple[str, ...], *, is_secure: bool) -> None:
    """Topics, records and groups; then the store is killed and comes back, and no session has ended; then the controller is
    killed, and another takes its place."""
    with cluster_on_store(kinds, tmp_path, is_secure=is_secure) as (cluster, store):
        admin = Admin(cluster)
        members = sorted(cluster.brokers)
        admin.create("orders", {0: members, 1: members[::-1]})
        produce(cluster, "orders")
        assert consumed(cluster, "orders", "readers", RECORDS) == RECORDS
        owners = {number: cluster.kazoo.exists(f"/brokers/ids/{number}").ephemeralOwner for number in members}
        store.signal(signal.SIGKILL)
        produce(cluster, "orders")  # leaders need no store
        store.kill()
        store.start()
        admin.create("later", {0: members})
        after = {number: cluster.kazoo.exists(f"/brokers/ids/{number}").ephemeralOwner for number in members}
        assert after == owners, "a session has ended"
        if is_secure:
            assert_secured(store)
        cluster.brokers[before := cluster.controller_id].kill()
        cluster.wait_for("another controls", lambda: cluster.controller_id not in (-1, before), 90)
        cluster.wait_for("another leads", lambda: cluster.leader_id("orders") not in (-1, before), 90)
        produce(cluster, "orders")
        assert consumed(cluster, "orders", "more readers", 3 * RECORDS) == 3 * RECORDS
        cluster.brokers[before].start()
        cluster.wait_in_sync("orders", "later")


def assert_secured(store: StoreServerProcess) -> None:
    kazoo = KazooClient(hosts=store.connect)
    kazoo.start(timeout=30)
    try:
        rows = {(row.perms, row.id.scheme, row.id.id) for row in kazoo.get_acls("/brokers/topics/orders")[0]}
        assert rows == {(31, "sasl", "broker"), (1, "world", "anyone")}
    finally:
        kazoo.stop()
        kazoo.close()


SHELL = """
create /shell one
create -e /shell/ephemeral two
create -s /shell/sequence- three
ls -R /shell
set /shell changed
get -s /shell
stat /shell
addauth digest me:secret
setAcl /shell auth:me:secret:crwda
getAcl /shell
whoami
sync /shell
getAllChildrenNumber /shell
getEphemerals
delete /shell/ephemeral
deleteall /shell
ls /
quit
"""


def test_the_shell_of_zookeeper(tmp_path: Path) -> None:
    with StoreServerProcess(tmp_path) as store:
        run = subprocess.run(
            java.command("org.apache.zookeeper.ZooKeeperMain", ["-server", store.connect]),
            input=SHELL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    lines = run.stdout.splitlines()
    assert run.returncode == 0, run.stderr[-2000:]
    for line in (
        "/shell/ephemeral",
        "/shell/sequence-0000000001",
        "changed",
        "dataVersion = 1",
        "dataLength = 7",
        "cversion = 2",
        "numChildren = 2",
        "'digest,'me:",
        ": cdrwa",
        "Sync is OK",
        "[zookeeper]",
    ):
        assert any(line in each for each in lines), f"{line}: {run.stdout}"
