"""The client waits out what passes, and raises what does not."""

from __future__ import annotations

import socket

import pytest

from client.blocking.attempts import ClusterUnavailable
from client.blocking.connection import BrokerConnection
from client.blocking.connections import FIRST_ANSWER_S
from client.settings.values import ClientSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.records.record import Record, encode_batch
from tests.client.blocking.scripted_cluster import Cluster

A, B = ("orders", 0), ("orders", 1)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster({A: 0, B: 2})
    cluster.logs[A] = encode_batch([Record(0, 50, None, b"a"), Record(1, 60, None, b"b")])
    cluster.logs[B] = encode_batch([Record(7, 90, None, b"c")], base_offset=7)
    cluster.starts[B] = 7
    return cluster


def test_topics_that_exist_are_found_and_others_are_not(cluster: Cluster) -> None:
    topics = cluster.client().topics(["orders", "nothing"])
    leaders = {name: {n: each.leader_id for n, each in topic.partitions.items()} for name, topic in topics.items()}
    assert leaders == {"orders": {0: 0, 1: 2}}
    assert set(cluster.client().topics()) == {"orders"}


def test_offsets_are_asked_of_each_leader(cluster: Cluster) -> None:
    client = cluster.client()
    assert client.offsets({A: EARLIEST, B: LATEST}) == {A: 0, B: 8}
    assert {broker for broker, name in cluster.asked if name == "ListOffsets"} == {0, 2}
    assert client.offsets({A: 61, B: 61}) == {A: -1, B: 7}


def test_the_latest_committed_offset_is_the_last_stable_one(cluster: Cluster) -> None:
    cluster.stable[A] = 1
    assert cluster.client().offsets({A: LATEST}, is_committed_only=True)[A] == 1
    assert cluster.client().offsets({A: LATEST})[A] == 2


def test_a_leader_that_moved_is_found(cluster: Cluster) -> None:
    client = cluster.client()
    client.offsets({A: LATEST})
    cluster.leaders[A] = 1
    assert client.offsets({A: LATEST})[A] == 2
    assert cluster.clock.now_s == pytest.approx(0.1, rel=0.2)


def test_a_leader_that_died_is_replaced(cluster: Cluster) -> None:
    client = cluster.client()
    client.offsets({A: LATEST, B: LATEST})
    cluster.down.add(0)

    def elected() -> None:
        cluster.leaders[A] = 1

    cluster.clock.at_pause = [lambda: None, lambda: None, elected]
    assert client.offsets({A: LATEST, B: LATEST})[A] == 2


def test_a_broker_that_hangs_is_left_for_another_one(cluster: Cluster) -> None:
    """It is the first of the bootstrap servers, which a new client asks first."""
    cluster.slow[0] = 1e9
    cluster.leaders[A] = 1
    assert cluster.client().offsets({A: LATEST})[A] == 2
    assert cluster.clock.now_s == pytest.approx(FIRST_ANSWER_S)


def test_brokers_that_are_slow_are_waited_for(cluster: Cluster) -> None:
    cluster.slow |= {0: 5.0, 1: 9.0, 2: 9.0}
    assert cluster.client().offsets({A: LATEST})[A] == 2


def test_a_new_connection_has_its_own_limit_for_the_first_answer() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,  # the kernel accepts, and nobody answers
        pytest.raises(ConnectionError, match=r"no response within 0\.05 s"),
    ):
        BrokerConnection(*server.getsockname(), ClientSettings(()), first_s=0.05)


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE])
def test_errors_that_pass_are_asked_again(cluster: Cluster, code: ErrorCode) -> None:
    cluster.errors = [("ListOffsets", code)] * 3
    assert cluster.client().offsets({A: LATEST})[A] == 2


def test_errors_that_stay_are_raised(cluster: Cluster) -> None:
    cluster.errors = [("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(KafkaError, match="orders-0"):
        cluster.client().offsets({A: LATEST})
    cluster.errors = [("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(KafkaError, match="topic orders"):
        cluster.client().topics(["orders"])


def test_attempts_end_when_the_time_is_over(cluster: Cluster) -> None:
    cluster.down.update(cluster.brokers)
    with pytest.raises(ClusterUnavailable, match=r"broker-0:9092: Connection refused.*after 5 s of attempts"):
        cluster.client(api_timeout_ms=5000).topics()
    assert 5 <= cluster.clock.now_s < 6


def test_the_time_of_attempts_begins_with_the_first_failure(cluster: Cluster) -> None:
    attempts = cluster.client(api_timeout_ms=5000).attempts("this")
    cluster.clock.now_s = 1000
    assert attempts.elapsed_s == 0
    attempts.pause("it failed")
    cluster.clock.now_s = 1006
    with pytest.raises(ClusterUnavailable, match="this: it failed again, after 5 s"):
        attempts.pause("it failed again")


def test_another_broker_is_asked_when_one_is_down(cluster: Cluster) -> None:
    cluster.down.add(0)
    assert cluster.client().topics(["orders"])
    assert cluster.clock.now_s == 0
