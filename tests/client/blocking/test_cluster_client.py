"""The client waits out what passes, and raises what does not."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from client.admin import brokers, groups, offsets, topics
from client.attempts import FIRST_ANSWER_S
from client.blocking.attempts import Surroundings, Waiting
from client.blocking.cluster_client import ClusterClient
from client.blocking.connection import BrokerConnection
from client.errors import ClusterUnavailable, LoginRefused
from client.settings.values import ClientSettings, SettingsError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.records.record import Record, encode_batch
from tests.client.blocking.scripted_cluster import PORT, Cluster

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
    assert 4 <= cluster.clock.now_s < 5


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


# --- steps ---


def test_the_controller_is_found_when_there_is_one_and_again_when_it_moves(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.controller = -1

    def elected() -> None:
        cluster.controller = 2

    cluster.clock.at_pause = [lambda: None, elected]
    moved = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.NONE])

    def create(_broker: int, request: Any) -> CreateTopicsResponse:
        rows = [
            CreatableTopicResult(name=each.name, error_code=next(moved), error_message=None) for each in request.topics
        ]
        return CreateTopicsResponse(topics=rows)

    cluster.handlers["CreateTopics"] = create
    wanted = {"new": CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])}
    assert client.run(topics.create(wanted, 1000, validate_only=False)) == {"new": None}
    assert [each for each in cluster.asked if each[1] == "CreateTopics"] == [(2, "CreateTopics")] * 2
    assert [name for _, name in cluster.asked] == ["Metadata"] * 3 + ["CreateTopics", "Metadata", "CreateTopics"]


@pytest.mark.parametrize(("version", "finds"), [(3, 2), (4, 1)])
def test_coordinators_are_found_and_again_when_they_move(cluster: Cluster, version: int, finds: int) -> None:
    cluster.versions["FindCoordinatorRequest"] = version
    cluster.errors = [("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)] * finds
    codes = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE])

    def describe(_broker: int, request: Any) -> DescribeGroupsResponse:
        code = next(codes)
        rows = [
            DescribedGroup(
                error_code=code, group_id=each, group_state="", protocol_type="", protocol_data="", members=[]
            )
            for each in request.groups
        ]
        return DescribeGroupsResponse(groups=rows)

    cluster.handlers["DescribeGroups"] = describe
    found = cluster.client().run(groups.describe(["g", "h"]))
    assert {name: each.coordinator for name, each in found.items()} == {"g": 1, "h": 1}
    assert Counter(name for _, name in cluster.asked) == {"FindCoordinator": 3 * finds, "DescribeGroups": 3}


def test_an_error_that_does_not_pass_in_time_is_the_answer(cluster: Cluster) -> None:
    cluster.errors = [("ListOffsets", ErrorCode.OFFSET_NOT_AVAILABLE)] * 1000
    found = cluster.client(api_timeout_ms=5000).run(offsets.offsets({A: LATEST}))
    assert found[A].code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert 4 <= cluster.clock.now_s < 5


def test_a_broker_that_is_not_there_is_an_error(cluster: Cluster) -> None:
    found = cluster.client().run(brokers.each_broker(ListGroupsRequest(), [9]))
    assert str(found[9]) == "BROKER_NOT_AVAILABLE: broker 9 is not in the cluster"


def test_who_waits_is_told_for_what(cluster: Cluster) -> None:
    cluster.errors = [("ListOffsets", ErrorCode.OFFSET_NOT_AVAILABLE)]
    cluster.client().run(offsets.offsets({A: LATEST}))
    reason = "OFFSET_NOT_AVAILABLE: " + ErrorCode.OFFSET_NOT_AVAILABLE.message
    leader = ("broker 0 (broker-0:9092)",)
    assert cluster.waits == [
        Waiting("Metadata", ("broker-0:9092",), None, 0.0),
        Waiting("ListOffsets", leader, None, 0.0),
        Waiting("ListOffsets", (), reason, 0.0),
        Waiting("ListOffsets", leader, reason, 0.0),
        None,
    ]


# --- side by side, on threads ---


class Hanging:
    """Broker 2 takes connections and never answers; the others do at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.aborted, self.closed = threading.Event(), threading.Event()
        self._connect = cluster._connect

    def connect(self, host: str, *arguments: Any, **limits: float) -> Any:
        made = self._connect(host, *arguments, **limits)
        if host == "broker-2":
            made.ask = self.ask
            made.abort = self.aborted.set
            made.close = self.closed.set
        return made

    def ask(self, *_: Any) -> Any:
        assert self.aborted.wait(60)
        raise ConnectionError("it was aborted")


def of_each(cluster: Cluster, hanging: Hanging, on_wait: Callable[[Any], object] = print) -> ClusterClient:
    """A client that has a connection to each broker."""
    cluster.handlers["ListGroups"] = lambda _broker, _request: ListGroupsResponse(error_code=0, groups=[])
    settings = ClientSettings((("broker-0", PORT),), api_timeout_ms=100)
    client = ClusterClient(settings, Surroundings(on_wait=on_wait), connect=hanging.connect)
    for broker in cluster.brokers:
        client._connections.to((f"broker-{broker}", PORT), 1.0)
    return client


def test_who_hangs_costs_the_others_nothing(cluster: Cluster) -> None:
    hanging = Hanging(cluster)
    with of_each(cluster, hanging) as client:
        found = client.run(brokers.each_broker(ListGroupsRequest(), [0, 1, 2]))
        assert [type(each) for each in found.values()] == [ListGroupsResponse, ListGroupsResponse, KafkaError]
        assert re.fullmatch(r"NETWORK_EXCEPTION: broker 2 \(broker-2:9092\): no response within 0.* s", str(found[2]))
        assert hanging.closed.wait(60), "by the thread that used it"


def test_an_interrupt_ends_a_wait_at_once(cluster: Cluster) -> None:
    def interrupt(waiting: Any) -> None:
        if waiting is not None and waiting.brokers == ("broker 2 (broker-2:9092)",):
            raise KeyboardInterrupt

    hanging = Hanging(cluster)
    with of_each(cluster, hanging, interrupt) as client, pytest.raises(KeyboardInterrupt):
        client.run(brokers.each_broker(ListGroupsRequest(), [0, 1, 2]))
    assert hanging.closed.wait(60)


@pytest.mark.parametrize("error", [LoginRefused("no"), SettingsError("no"), AssertionError("a bug")])
def test_what_is_no_failure_of_one_broker_is_raised(cluster: Cluster, error: Exception) -> None:
    def refuse(_broker: int, _request: Any) -> Any:
        raise error

    with of_each(cluster, Hanging(cluster)) as client:
        cluster.handlers["ListGroups"] = refuse
        with pytest.raises(type(error), match=str(error)):
            client.run(brokers.each_broker(ListGroupsRequest(), [0, 1]))
