"""Several brokers for tests: records survive the end of their leader, and a broker that hangs is replaced."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from barnabas import EmbeddedBroker

PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    settings = {"replica.lag.time.max.ms": 2_000, "barnabas.http.port": 0}
    with EmbeddedBroker(["first"], settings, brokers=3) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def whole(cluster: EmbeddedBroker) -> Iterator[None]:
    yield
    cluster.restore()


def leader_of(cluster: EmbeddedBroker, topic: str, *, but: int | None = None) -> int:
    """Return the leader of the topic's first partition, once it is not `but`."""
    admin = AdminClient({**cluster.client_settings(), "log_level": 0})
    while True:
        leader = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0].leader
        if leader not in (but, -1):
            return leader


def values_of(cluster: EmbeddedBroker, topic: str, count: int) -> list[bytes | None]:
    settings = {**cluster.client_settings(), "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    values = [record.value() for record in consumer.consume(count, PATIENCE_S)]
    consumer.close()
    return values


def test_topics_have_replicas_everywhere(cluster: EmbeddedBroker) -> None:
    cluster.create_topic("three", 2, settings={"min.insync.replicas": 3})
    cluster.create_topic("one", replicas=1)
    topics = AdminClient(cluster.client_settings()).list_topics(timeout=PATIENCE_S).topics
    replicas = {
        name: {len(each.replicas) for each in topics[name].partitions.values()} for name in ("first", "three", "one")
    }
    assert replicas == {"first": {3}, "three": {3}, "one": {1}}


@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_another_broker_leads_when_one_does_not_serve(cluster: EmbeddedBroker, how: str) -> None:
    topic = f"led-{how}"
    cluster.create_topic(topic)
    settings = {"acks": "all", "socket.timeout.ms": 5_000, "log_level": 0}  # a broker that hangs keeps its connections
    producer = Producer({**cluster.client_settings(), **settings})
    producer.produce(topic, b"before")
    assert producer.flush(PATIENCE_S) == 0
    leader, addresses = leader_of(cluster, topic), cluster.bootstrap_servers
    getattr(cluster, how)(leader)
    assert leader_of(cluster, topic, but=leader) != leader
    producer.produce(topic, b"meanwhile")
    assert producer.flush(PATIENCE_S) == 0
    cluster.restore()
    assert cluster.bootstrap_servers == addresses
    producer.produce(topic, b"after")
    assert producer.flush(PATIENCE_S) == 0
    assert values_of(cluster, topic, 3) == [b"before", b"meanwhile", b"after"]


def test_faults_are_of_one_broker_or_of_all(cluster: EmbeddedBroker) -> None:
    cluster.create_topic("faulty")
    leader = leader_of(cluster, "faulty")
    cluster.inject("Produce", "NOT_LEADER_OR_FOLLOWER", broker=leader)
    producer = Producer({**cluster.client_settings(), "log_level": 0})
    producer.produce("faulty", b"record")
    assert producer.flush(PATIENCE_S) == 0
    assert cluster.faults_left() == 0
    cluster.inject("CreateTopics", "NOT_CONTROLLER")
    assert cluster.faults_left() == 3
    cluster.clear_faults()
    assert cluster.faults_left() == 0


def test_a_follower_that_gets_no_records_leaves_the_in_sync_replicas(cluster: EmbeddedBroker) -> None:
    cluster.create_topic("lagging", settings={"min.insync.replicas": 1})
    leader = leader_of(cluster, "lagging")
    cluster.inject("FetchFollower", disconnect=True, times=0, broker=leader)
    producer = Producer({**cluster.client_settings(), "acks": "all", "log_level": 0})
    producer.produce("lagging", b"record")
    assert producer.flush(PATIENCE_S) == 0
    admin = AdminClient(cluster.client_settings())
    assert len(admin.list_topics("lagging", timeout=PATIENCE_S).topics["lagging"].partitions[0].isrs) < 3


def test_one_page_has_the_metrics_of_all(cluster: EmbeddedBroker) -> None:
    with urllib.request.urlopen(f"http://{cluster.http_address}/metrics", timeout=PATIENCE_S) as answer:
        page = answer.read().decode()
    assert all(f'broker="{broker_id}"' in page for broker_id in cluster.broker_ids)
    assert {line.split(" | ")[0].strip() for line in cluster.log.splitlines() if " | " in line} <= {
        "store",
        *(f"broker {broker_id}" for broker_id in cluster.broker_ids),
    }


def test_brokers_are_named_by_their_ids(cluster: EmbeddedBroker) -> None:
    assert cluster.broker_ids == (0, 1, 2) == tuple(cluster.process_ids)
    for ask in (cluster.kill, cluster.restart, lambda: cluster.process_id):
        with pytest.raises(ValueError, match="name a broker: there are 0, 1 and 2"):
            ask()
    with pytest.raises(ValueError, match="there is no broker 3: there are 0, 1 and 2"):
        cluster.kill(3)


def test_a_secured_cluster_has_its_users_and_acls_on_every_broker() -> None:
    with EmbeddedBroker(["orders", "bills"], brokers=3, tls=True, acls=["alice read topic orders"]) as cluster:
        for address in cluster.bootstrap_servers.split(","):
            admin = AdminClient({**cluster.client_settings("alice"), "bootstrap.servers": address})
            assert set(admin.list_topics(timeout=PATIENCE_S).topics) == {"orders"}
