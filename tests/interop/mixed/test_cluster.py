"""Brokers of ours in one cluster with Apache Kafka 3.9.1: as follower, leader, controller and coordinator.

NEWCOMER=kafka puts Apache Kafka in our place, which shows that the checks are right.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.cluster.cluster_load import QUICK, Load, check
from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin, AnswerError
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

NEWCOMER = os.environ.get("NEWCOMER", OURS)
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
OURS_ID = 3
"""Brokers 1 and 2 are Apache Kafka's."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Broker 1 of Apache Kafka controls, since it was first; the newcomer joins last."""
    need_java()
    with Cluster(()) as made:
        for number, kind in ((1, KAFKA), (2, KAFKA), (OURS_ID, NEWCOMER)):
            made.add(number, kind).start()
        made.wait_until_known()
        assert made.controller_id == 1
        yield made


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    """Of a cluster with everybody in it, whatever the test before this one left."""
    for number, broker in cluster.brokers.items():
        if not broker.is_running:
            cluster.wait_for("its session ends", lambda one=number: one not in cluster.registered())  # type: ignore[misc]
            broker.start()
    cluster.wait_for("all are there", lambda: cluster.registered() == set(cluster.brokers))
    cluster.wait_until_known()
    return Admin(cluster)


def produce(cluster: Cluster, topic: str, partition: int, count: int, **settings: object) -> None:
    """`count` records with acks=all; every one must be acknowledged."""
    refused: list[str] = []
    producer = Producer({**QUICK, "bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **settings})
    for number in range(count):
        producer.produce(
            topic,
            b"value %d " % number * 10,
            key=b"%d" % number,
            headers={"number": b"%d" % number},
            partition=partition,
            on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
        )
    assert producer.flush(60) == 0 and not refused, refused[:3]


# --- (a) Apache Kafka leads and controls, the newcomer follows ---


def test_a_follower_copies_every_kind_of_batch(cluster: Cluster, admin: Admin) -> None:
    admin.create("copied", {0: [1, 2, OURS_ID], 1: [2, OURS_ID, 1]})
    for compression in COMPRESSIONS:
        for partition in (0, 1):
            produce(cluster, "copied", partition, 200, **{"compression.type": compression})
            produce(cluster, "copied", partition, 50, **{"compression.type": compression, "enable.idempotence": True})
    assert cluster.isr("copied", 0) == {1, 2, OURS_ID} and cluster.isr("copied", 1) == {1, 2, OURS_ID}
    assert_equal_logs(cluster, "copied")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_follower_that_was_away_catches_up(cluster: Cluster, admin: Admin, end: str) -> None:
    topic = f"away-{end}"
    admin.create(topic, {0: [1, 2, OURS_ID]})
    produce(cluster, topic, 0, 100)
    newcomer = cluster.brokers[OURS_ID]
    newcomer.stop() if end == "stop" else newcomer.kill()
    cluster.wait_for("the ISR is without it", lambda: cluster.isr(topic) == {1, 2})
    produce(cluster, topic, 0, 1000)
    newcomer.start()
    cluster.wait_in_sync()
    assert_equal_logs(cluster, topic)


def test_a_follower_with_an_empty_directory_is_filled(cluster: Cluster, admin: Admin) -> None:
    admin.create("emptied", {0: [1, 2, OURS_ID]}, configs={"segment.bytes": "100000"})
    produce(cluster, "emptied", 0, 3000, **{"batch.size": 20_000})
    newcomer = cluster.brokers[OURS_ID]
    newcomer.stop()
    newcomer.lose_data()
    newcomer.start()
    cluster.wait_in_sync()
    assert_equal_logs(cluster, "emptied")


def test_a_hung_follower_leaves_the_isr_and_comes_back(cluster: Cluster, admin: Admin) -> None:
    admin.create("hung", {0: [1, 2, OURS_ID]})
    newcomer = cluster.brokers[OURS_ID]
    newcomer.pause()
    try:
        produce(cluster, "hung", 0, 10, acks=1)
        cluster.wait_for("the ISR is without it", lambda: OURS_ID not in cluster.isr("hung"))
    finally:
        newcomer.resume()
    cluster.wait_in_sync()
    produce(cluster, "hung", 0, 10)
    assert_equal_logs(cluster, "hung")


def is_written(checkpoint: Path, line: str) -> bool:
    """Whether a checkpoint has the line; a broker with a new data directory has no file before its first round."""
    return checkpoint.exists() and line in checkpoint.read_text()


def test_deleted_records_are_deleted_on_the_follower(cluster: Cluster, admin: Admin) -> None:
    admin.create("shortened", {0: [1, 2, OURS_ID]})
    produce(cluster, "shortened", 0, 100)
    admin.delete_records("shortened", 0, 60)
    for broker in (2, OURS_ID):
        checkpoint = cluster.brokers[broker].data / "log-start-offset-checkpoint"
        assert wait_until(partial(is_written, checkpoint, "shortened 0 60"), 90, 0.5)
    admin.move_leader("shortened", OURS_ID)
    assert admin.start_offset("shortened", 0) == 60


# --- (b) the newcomer leads, Apache Kafka follows ---


def test_leadership_moves_and_comes_back(cluster: Cluster, admin: Admin) -> None:
    admin.create("moved", {0: [1, 2, OURS_ID]})
    for leader in (OURS_ID, 2, OURS_ID, 1):
        produce(cluster, "moved", 0, 100, **{"enable.idempotence": True})
        admin.move_leader("moved", leader)
    produce(cluster, "moved", 0, 100)
    cluster.wait_in_sync("moved")
    assert_equal_logs(cluster, "moved")


def test_a_leader_takes_followers_in_and_out_of_the_isr(cluster: Cluster, admin: Admin) -> None:
    admin.create("led", {0: [OURS_ID, 1, 2]})
    produce(cluster, "led", 0, 100)
    cluster.brokers[2].stop()
    cluster.wait_for("the ISR is without 2", lambda: cluster.isr("led") == {1, OURS_ID})
    produce(cluster, "led", 0, 500)
    cluster.brokers[2].start()
    cluster.wait_in_sync("led")
    cluster.brokers[2].pause()
    try:
        cluster.wait_for("2 is out for its lag", lambda: 2 not in cluster.isr("led"))
        produce(cluster, "led", 0, 500)
    finally:
        cluster.brokers[2].resume()
    cluster.wait_in_sync()
    assert_equal_logs(cluster, "led")


def test_too_few_in_sync_replicas_are_refused_by_either(cluster: Cluster, admin: Admin) -> None:
    """min.insync.replicas=2: with one replica left, acks=all is refused and acks=1 is not."""
    for leader, others in ((OURS_ID, (1, 2)), (1, (2, OURS_ID))):
        topic = f"few-{leader}"
        admin.create(topic, {0: [leader, *others]}, configs={"min.insync.replicas": "3"})
        produce(cluster, topic, 0, 10)
        cluster.brokers[others[1]].stop()
        told = cluster.brokers[leader]  # ZooKeeper knows before the leader does
        cluster.wait_for("the leader knows that one is out", lambda t=topic, b=told: isr_size(admin, t, b) == 2)  # type: ignore[misc]
        errors: list[str] = []
        producer = Producer(
            {**QUICK, "bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 60_000, "retries": 0}
        )
        producer.produce(topic, b"x", on_delivery=lambda error, _message: errors.append(error.name()))  # noqa: B023
        producer.flush(90)
        assert errors == ["NOT_ENOUGH_REPLICAS"]
        cluster.brokers[others[1]].start()
        cluster.wait_in_sync()


def isr_size(admin: Admin, topic: str, broker: Broker) -> int:
    """As the broker tells it: of a partition that it leads it has heard that before."""
    return len(admin.metadata(topic, broker).partitions[0].isr_nodes)


# --- (c) the newcomer controls ---


def test_the_newcomer_controls_apache_brokers() -> None:
    need_java()
    with Cluster(()) as cluster:
        for number, kind in ((OURS_ID, NEWCOMER), (1, KAFKA), (2, KAFKA)):
            cluster.add(number, kind).start()
        cluster.wait_until_known()
        assert cluster.controller_id == OURS_ID
        admin = Admin(cluster)
        admin.create("orders", {0: [1, 2, OURS_ID], 1: [2, OURS_ID, 1]}, configs={"retention.ms": "1000000"})
        admin.create("placed", partitions=6, replicas=2)
        produce(cluster, "orders", 0, 100)
        produce(cluster, "orders", 1, 100)
        assert sorted(leader_counts(cluster, "placed").values()) == [2, 2, 2]
        admin.grow("orders", 4)
        produce(cluster, "orders", 3, 100)
        admin.reassign("orders", {0: [2, 1], 1: [OURS_ID, 1, 2], 3: [1]})
        assert cluster.partitions("orders")[0] == [2, 1]
        admin.elect_preferred("orders", range(4))
        cluster.wait_for("2 leads", lambda: cluster.leader_id("orders", 0) == 2)
        with pytest.raises(AnswerError, match="INVALID_REPLICA_ASSIGNMENT"):
            admin.reassign("orders", {0: [1, 9]})
        cluster.brokers[1].stop()
        cluster.wait_for("nobody is led by 1", lambda: 1 not in leader_counts(cluster, "orders"))
        cluster.brokers[1].start()
        cluster.wait_in_sync()
        cluster.brokers[2].kill()
        cluster.wait_for("nobody is led by 2", lambda: 2 not in leader_counts(cluster, "orders"))
        cluster.brokers[2].start()
        cluster.wait_in_sync()
        admin.delete("placed")
        for broker in cluster.brokers.values():
            assert wait_until(lambda b=broker: not list(b.data.glob("placed-*")), 90, 0.5)  # type: ignore[misc]
        assert_equal_logs(cluster, "orders")
        admin.create("loaded", {0: [1, 2, OURS_ID], 1: [2, OURS_ID, 1]})
        with Load(cluster.bootstrap_servers, "loaded", 2) as load:
            cluster.brokers[OURS_ID].stop()
            cluster.wait_for("another controls", lambda: cluster.controller_id in (1, 2))
            load.wait_for_acknowledgements(500)
            cluster.brokers[OURS_ID].start()
            cluster.wait_in_sync()
        check(load, cluster.bootstrap_servers)
        admin.create("after", {0: [1, 2, OURS_ID]})


def leader_counts(cluster: Cluster, topic: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for partition in cluster.partitions(topic):
        leader = cluster.leader_id(topic, partition)
        counts[leader] = counts.get(leader, 0) + 1
    return counts


# --- (d) group coordinator ---


def test_a_group_goes_on_with_another_coordinator(cluster: Cluster, admin: Admin) -> None:
    admin.create("consumed", {0: [1, 2, OURS_ID]})
    produce(cluster, "consumed", 0, 400)
    group = "wanderers"
    partition = admin.coordinator_partition(group)
    read = 0
    for coordinator in (1, OURS_ID, 2, OURS_ID, 1):
        admin.move_leader("__consumer_offsets", coordinator, partition)
        cluster.wait_for("it coordinates", lambda one=coordinator: admin.coordinator_of(group) == one)  # type: ignore[misc]
        values = consume(cluster, "consumed", group, 80)
        assert [int(value.split()[1]) for value in values] == list(range(read, read + 80))
        read += 80
        assert admin.committed(group, "consumed", 0) == read
    assert_equal_logs(cluster, "__consumer_offsets")


def consume(cluster: Cluster, topic: str, group: str, count: int) -> list[bytes]:
    """The next `count` values of a group with one member, committed."""
    consumer = Consumer(
        {
            **QUICK,
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    last = None
    deadline = time.monotonic() + 90
    while len(values) < count:
        assert time.monotonic() < deadline, f"read {len(values)} of {count}"
        for message in consumer.consume(count - len(values), 1.0):
            assert message.error() is None
            value = message.value()
            assert value is not None
            values.append(value)
            last = message
    assert last is not None
    place = TopicPartition(topic, last.partition() or 0, (last.offset() or 0) + 1)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    return values


# --- (e) kill -9 under load ---


@pytest.mark.parametrize("victim", [1, OURS_ID])
def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(cluster: Cluster, admin: Admin, victim: int) -> None:
    topic = f"killed-{victim}"
    admin.create(topic, {0: [victim, 2, 4 - victim], 1: [2, victim, 4 - victim], 2: [4 - victim, victim, 2]})
    with Load(cluster.bootstrap_servers, topic, 3) as load:
        for _ in range(2):
            load.wait_for_acknowledgements(1000)
            cluster.brokers[victim].kill()
            cluster.wait_for("it is gone", lambda: victim not in cluster.registered())
            load.wait_for_acknowledgements(1000)
            cluster.brokers[victim].start()
            cluster.wait_in_sync(topic)
            admin.elect_preferred(topic, range(3))
        load.wait_for_acknowledgements(500)
    check(load, cluster.bootstrap_servers)
    assert_equal_logs(cluster, topic)


# --- (f) rolling migration ---


def test_a_whole_cluster_migrates_and_back() -> None:
    """Each step: one broker of the other kind, with the same id and an empty directory, takes a stopped one's place."""
    need_java()
    with Cluster((KAFKA, KAFKA, KAFKA)) as cluster:
        admin = Admin(cluster)
        admin.create("orders", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        with Load(cluster.bootstrap_servers, "orders", 3) as load:
            for kind in (NEWCOMER, KAFKA):
                for number in (1, 2, 3):
                    load.wait_for_reads(500)
                    cluster.replace(number, kind)
                    cluster.wait_in_sync()
                    admin.elect_preferred("orders", range(3))
                    load.wait_for_acknowledgements(500)
        check(load, cluster.bootstrap_servers)
        assert_equal_logs(cluster, "orders")
        assert_equal_logs(cluster, "__consumer_offsets")
