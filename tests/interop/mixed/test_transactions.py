"""Transactions in a cluster with Apache Kafka 3.9.1: coordinators of either kind write their markers into partitions that
brokers of either kind lead, which ask them before the first write of a transaction; followers of either kind copy all of it.

NEWCOMER=kafka puts Apache Kafka in our place, which shows that the checks are right.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.interop.cluster.cluster_load import QUICK
from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.kafka_directory import read
from tests.oracle.admin import Admin, ask
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

NEWCOMER = os.environ.get("NEWCOMER", OURS)
OURS_ID = 3
"""Brokers 1 and 2 are Apache Kafka's."""
SETTINGS = {
    "zookeeper.session.timeout.ms": "30000"  # nobody leaves here
}
ROUNDS = 20
ENTRY = struct.Struct(">hqqqq")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster((), settings=SETTINGS) as made:
        for number, kind in ((1, KAFKA), (2, KAFKA), (OURS_ID, NEWCOMER)):
            made.add(number, kind).start()
        made.wait_until_known()
        yield made


def transactional_id(cluster: Cluster, *, is_ours: bool) -> str:
    """One whose coordinator is ours, or Apache Kafka's."""
    kafka = cluster.brokers[1]
    for number in range(1000):
        name = f"tx-{number}"
        coordinators: list[int] = []

        def is_found(key: str = name, into: list[int] = coordinators) -> bool:
            (answer,) = ask(kafka, FindCoordinatorRequest(coordinator_keys=[key], key_type=1)).coordinators
            if answer.error_code == ErrorCode.NONE:
                into.append(answer.node_id)
            return bool(into)

        assert wait_until(is_found, 60), f"no coordinator for {name}"
        if (coordinators[0] == OURS_ID) == is_ours:
            return name
    raise AssertionError("every coordinator is of the other kind")


def transact(cluster: Cluster, topic: str, rounds: int) -> tuple[list[bytes], list[bytes]]:
    """(what was committed, everything), by producers with coordinators of both kinds whose transactions overlap."""
    committed: list[bytes] = []
    everything: list[bytes] = []
    producers = [
        Producer({**QUICK, "bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
        for name in (transactional_id(cluster, is_ours=False), transactional_id(cluster, is_ours=True))
    ]
    for producer in producers:
        producer.init_transactions(60)
    for turn in range(rounds):
        values = [b"%s %d of %d" % (topic.encode(), turn, at) * 5 for at in range(2)]
        for producer, value in zip(producers, values, strict=True):
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            assert producer.flush(60) == 0
        for at, (producer, value) in enumerate(zip(producers, values, strict=True)):
            everything.append(value)
            if (turn + at) % 3:
                committed.append(value)
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    return committed, everything


def aborted_in(broker: Broker, topic: str) -> list[tuple[int, int, int]]:
    """(producer id, first offset, last offset) of each entry of a replica's transaction indexes. What was stable then
    depends on how much a follower copied at once."""
    return [
        (producer_id, first_offset, last_offset)
        for path in sorted((broker.data / f"{topic}-0").glob("*.txnindex"))
        for _, producer_id, first_offset, last_offset, _ in ENTRY.iter_unpack(path.read_bytes())
    ]


def fetched(broker: Broker, topic: str, offset: int) -> tuple[int, list[tuple[int, int]] | None, bytes]:
    """(last stable offset, aborted transactions, records) as one replica tells a reader of committed records."""
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, isolation_level=1, topics=[FetchTopic(topic=topic, partitions=[row])]
    )
    (answer,) = ask(broker, request, 12).responses[0].partitions
    assert answer.error_code == ErrorCode.NONE
    aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or []]
    return answer.last_stable_offset, aborted, bytes(answer.records or b"")


@pytest.mark.parametrize("leader", [OURS_ID, 1], ids=["we lead", "we follow"])
def test_transactions_are_the_same_on_every_replica(cluster: Cluster, leader: int) -> None:
    admin = Admin(cluster)
    topic = f"led-by-{leader}"
    others = [one for one in (1, 2, OURS_ID) if one != leader]
    admin.create(topic, {0: [leader, *others]}, configs={"segment.bytes": "2000", "index.interval.bytes": "300"})
    committed, everything = transact(cluster, topic, ROUNDS)
    # A coordinator answers before its markers are written.
    cluster.wait_for("every marker is there", lambda: fetched(cluster.brokers[leader], topic, 0)[0] >= 4 * ROUNDS)
    cluster.wait_in_sync(topic)
    assert_equal_logs(cluster, topic)
    end = fetched(cluster.brokers[leader], topic, 0)[0]
    for one in (1, 2, OURS_ID):
        broker = cluster.brokers[one]
        # A follower hears of the last high watermark with its next fetch.
        cluster.wait_for(f"broker {one} is as far", lambda b=broker: fetched(b, topic, 0)[0] == end)  # type: ignore[misc]
        # An index is a file of its own, and written by itself.
        cluster.wait_for(
            f"broker {one} has the leader's index",
            lambda b=broker: aborted_in(b, topic) == aborted_in(cluster.brokers[leader], topic),  # type: ignore[misc]
        )
    assert len(aborted_in(cluster.brokers[leader], topic)) >= 13
    for one in (leader, *others):
        if one != leader:
            admin.move_leader(topic, one)
        seen = read(cluster.bootstrap_servers, topic, 0, "read_committed")
        assert [each.value for each in seen] == committed
        assert len(read(cluster.bootstrap_servers, topic, 0, "read_uncommitted")) == len(everything)


@pytest.mark.parametrize("leader", [OURS_ID, 1], ids=["we lead", "we follow"])
@pytest.mark.parametrize("is_ours", [True, False], ids=["we coordinate", "Kafka coordinates"])
def test_what_hangs_ends_when_its_coordinator_says_so(cluster: Cluster, leader: int, is_ours: bool) -> None:
    """A producer that comes back under its id has its coordinator abort what it left open."""
    admin = Admin(cluster)
    topic = f"hanging-{leader}-{is_ours}"
    admin.create(topic, {0: [leader, *(one for one in (1, 2, OURS_ID) if one != leader)]})
    name = transactional_id(cluster, is_ours=is_ours)
    settings = {**QUICK, "bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name}
    first = Producer(settings)
    first.init_transactions(60)
    first.begin_transaction()
    first.produce(topic, b"left open", partition=0)
    assert first.flush(60) == 0
    assert fetched(cluster.brokers[leader], topic, 0)[0] == 0
    second = Producer(settings)
    second.init_transactions(60)
    second.begin_transaction()
    second.produce(topic, b"decided", partition=0)
    second.commit_transaction(60)
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        first.commit_transaction(60)
    # Two records and two markers, which are written when the coordinators have answered.
    cluster.wait_for("every marker is there", lambda: fetched(cluster.brokers[leader], topic, 0)[0] >= 4)
    assert [each.value for each in read(cluster.bootstrap_servers, topic, 0, "read_committed")] == [b"decided"]
    assert_equal_logs(cluster, topic)
