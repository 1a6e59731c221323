"""Exactly once in a cluster with Apache Kafka 3.9.1: the coordinators of transactions and groups, and the partitions, lie on
either implementation, and move from one to the other in the middle of a transaction.

NEWCOMER=kafka puts Apache Kafka in our place, which shows that the checks are right.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from protocol.messages.list_transactions import ListTransactionsRequest
from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.retried_requests import end_of
from tests.interop.transactions.clients.clients import OLDER_JAVA, Clients, all_clients
from tests.interop.transactions.clients.interface import Client, FencedError, Producer
from tests.interop.transactions.clients.processing import Feed, Worker, assert_processed_once
from tests.interop.transactions.clients.servers import SETTINGS, Topic
from tests.oracle.admin import Admin, ask
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

NEWCOMER = os.environ.get("NEWCOMER", OURS)
OURS_ID = 3
"""Brokers 1 and 2 are Apache Kafka's."""
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
PATIENCE_S = 60.0
ASSIGNMENT = {0: [1, 2, OURS_ID], 1: [2, OURS_ID, 1], 2: [OURS_ID, 1, 2]}
"""Each broker leads a partition."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster((), settings={**SETTINGS, "zookeeper.session.timeout.ms": "30000"}) as made:
        for number, kind in ((1, KAFKA), (2, KAFKA), (OURS_ID, NEWCOMER)):
            made.add(number, kind).start()
        made.wait_until_known()
        yield made


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with all_clients() as made:
        yield made


@pytest.fixture(params=["confluent-kafka", pytest.param(f"Java {OLDER_JAVA}", marks=pytest.mark.long)])
def client(request: pytest.FixtureRequest, clients: Clients, cluster: Cluster) -> Iterator[Client]:
    made = clients.make(request.param, cluster.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    return Admin(cluster)


def created(cluster: Cluster, admin: Admin) -> Topic:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create(name, ASSIGNMENT)
    return Topic(cluster.bootstrap_servers, name)


def coordinate(cluster: Cluster, admin: Admin, transactional_id: str, broker: int) -> None:
    """Have the broker coordinate the transactions of the id."""
    admin.move_leader(STATE, broker, admin.transaction_partition(transactional_id))
    cluster.wait_for("it coordinates", lambda: admin.transaction_coordinator_of(transactional_id) == broker)


@pytest.mark.parametrize(
    ("coordinator", "group_coordinator"),
    [
        pytest.param(OURS_ID, 1, id="ours, group kafka"),
        pytest.param(1, OURS_ID, id="kafka, group ours"),
        pytest.param(OURS_ID, OURS_ID, id="both ours", marks=pytest.mark.long),
    ],
)
def test_consume_process_produce(
    cluster: Cluster, admin: Admin, client: Client, coordinator: int, group_coordinator: int
) -> None:
    source, target = created(cluster, admin), created(cluster, admin)
    group = f"g-{source.name}"
    workers = [Worker(client, group, source, target, transactional_id=f"{group}-{one}") for one in range(2)]
    admin.move_leader(OFFSETS, group_coordinator, admin.coordinator_partition(group))
    for partition in {admin.transaction_partition(each.transactional_id) for each in workers}:
        admin.move_leader(STATE, coordinator, partition)
    feed = Feed(client, source)
    try:
        feed.write(30)
        with workers[0]:
            feed.wait_until_processed(workers[0])
            with workers[1]:
                feed.write_until(lambda: bool(workers[1].processed or workers[1].has_ended))
                feed.wait_until_processed(*workers)
        assert_processed_once(client, feed, target)
    finally:
        feed.close()
    for topic in (source.name, target.name, STATE, OFFSETS):
        assert_equal_logs(cluster, topic)


def test_a_transaction_goes_on_with_another_coordinator(cluster: Cluster, admin: Admin, client: Client) -> None:
    """Begun with one implementation and ended by the other, both ways."""
    topic, name = created(cluster, admin), f"n-{uuid.uuid4().hex[:8]}"
    coordinate(cluster, admin, name, 1)
    producer = client.producer(name)
    committed: list[str] = []
    try:
        producer.init()
        for turn, following in enumerate((OURS_ID, 2, OURS_ID, 1)):
            producer.begin()
            for partition in ASSIGNMENT:
                producer.send(topic.name, partition, f"value {turn}")
            coordinate(cluster, admin, name, following)
            if turn == 1:
                producer.abort()
            else:
                producer.commit()
                committed.append(f"value {turn}")
            cluster.wait_for(
                "its coordinator lists it",
                lambda b=following, s="CompleteAbort" if turn == 1 else "CompleteCommit": listed(cluster, b, name) == s,  # type: ignore[misc]
            )
    finally:
        producer.close()
    topic.wait_until_ends_at(8, 8, 8)
    assert client.read(topic.name, "read_committed") == [committed] * 3
    assert_equal_logs(cluster, topic.name)
    assert_equal_logs(cluster, STATE)


def listed(cluster: Cluster, broker: int, transactional_id: str) -> str | None:
    """The state that a broker lists the id with."""
    states = ask(
        cluster.brokers[broker], ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    ).transaction_states
    return next((each.transaction_state for each in states if each.transactional_id == transactional_id), None)


@pytest.mark.parametrize(
    "coordinator",
    [pytest.param(OURS_ID, id="we coordinate"), pytest.param(1, id="kafka coordinates", marks=pytest.mark.long)],
)
def test_fencing_and_timeouts(cluster: Cluster, admin: Admin, client: Client, coordinator: int) -> None:
    topic, name = created(cluster, admin), f"n-{uuid.uuid4().hex[:8]}"
    coordinate(cluster, admin, name, coordinator)
    producers: list[Producer] = []

    def begun(value: str, timeout_ms: int = 60_000) -> Producer:
        producers.append(client.producer(name, timeout_ms))
        producers[-1].init()
        producers[-1].begin()
        for partition in ASSIGNMENT:
            producers[-1].send(topic.name, partition, value)
        return producers[-1]

    try:
        older = begun("of the older")
        newer = begun("of the newer")
        with pytest.raises(FencedError):
            older.commit()
        newer.commit()
        slow = begun("too late", 1000)
        for partition in ASSIGNMENT:
            assert wait_until(lambda p=partition: end_of(topic.bootstrap, topic.name, p) == 6, PATIENCE_S), "no marker"  # type: ignore[misc]
        with pytest.raises(FencedError):
            slow.commit()
        begun("in time").commit()
    finally:
        for each in producers:
            each.close()
    topic.wait_until_ends_at(8, 8, 8)
    assert client.read(topic.name, "read_committed") == [["of the newer", "in time"]] * 3
    assert_equal_logs(cluster, topic.name)
