"""What a client knows of a cluster: what it is told, less what is disproved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.cluster_view import ClusterView, find_coordinator_requests
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

KEY = ("orders", 0)
FIRST, SECOND = b"1" * 16, b"2" * 16


def topic(leader: int = 1, epoch: int = 5, *, topic_id: bytes = FIRST, code: int = 0) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1, 2]
    )
    return MetadataResponseTopic(
        error_code=code, name="orders", topic_id=topic_id, partitions=[] if code else [partition]
    )


def response(
    *topics: MetadataResponseTopic, controller: int = 1, brokers: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    there = [MetadataResponseBroker(node_id=each, host=f"broker-{each}", port=9092) for each in brokers]
    return MetadataResponse(brokers=there, cluster_id="c", controller_id=controller, topics=list(topics))


def view(*topics: MetadataResponseTopic) -> ClusterView:
    made = ClusterView()
    made.learn(response(*topics or (topic(),)))
    return made


def test_what_it_is_told() -> None:
    made = view()
    assert (made.cluster_id, made.controller_id, made.leader(KEY)) == ("c", 1, 1)
    assert (made.address(2), made.address(3), made.name(2)) == (("broker-2", 9092), None, "broker 2 (broker-2:9092)")
    assert made.unknown_topics(["orders", "other", "other"]) == ["other"]


def test_a_controller_that_is_no_broker_is_none() -> None:
    made = view()
    made.learn(response(controller=7))
    assert made.controller_id is None


def test_a_broker_that_knows_no_brokers_says_nothing() -> None:
    made = view()
    made.learn(MetadataResponse(brokers=[], topics=[topic(code=3)]), is_of_all_topics=True)
    assert made.leader(KEY) == 1


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (topic(leader=-1), ErrorCode.LEADER_NOT_AVAILABLE),
        (topic(leader=9), ErrorCode.LEADER_NOT_AVAILABLE),
        (topic(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (topic(code=30_000), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_partition_without_a_leader_is_an_error(told: MetadataResponseTopic, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        view(told).leader(KEY)
    assert raised.value.code is code


def test_a_partition_that_the_topic_lacks_does_not_exist() -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: orders-7 does not exist"):
        view().leader(("orders", 7))


@pytest.mark.parametrize(
    ("told", "leader"),
    [
        (topic(2, 6), 2),
        (topic(2, 5), 2),
        (topic(2, 4), 1),  # of an older image
        (topic(2, -1), 2),  # of a broker that has no epochs
        (topic(2, 0, topic_id=SECOND), 2),  # the topic was made again
    ],
)
def test_an_older_leader_does_not_replace_a_newer_one(told: MetadataResponseTopic, leader: int) -> None:
    made = view()
    made.forget_topics(["orders"])
    assert made.unknown_topics(["orders"]) == ["orders"]
    made.learn(response(told))
    assert (made.leader(KEY), made.unknown_topics(["orders"])) == (leader, [])


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 9), st.booleans())))
def test_the_epoch_of_a_leader_never_goes_back(told: list[tuple[int, int, bool]]) -> None:
    made, newest = view(topic(1, 0)), 0
    for leader, epoch, is_of_all in told:
        made.learn(response(topic(leader, epoch)), is_of_all_topics=is_of_all)
        newest = max(newest, epoch)
        assert made.topics["orders"].partitions[0].leader_epoch == newest


def test_topics_that_are_not_among_all_are_gone() -> None:
    made = view()
    made.learn(response())
    assert "orders" in made.topics
    made.learn(response(), is_of_all_topics=True)
    assert "orders" not in made.topics


def found(keys: list[str], broker: int, code: int = 0) -> FindCoordinatorResponse:
    rows = [
        Coordinator(key=key, node_id=broker, host="new", port=1, error_code=code, error_message=None) for key in keys
    ]
    return FindCoordinatorResponse(coordinators=rows)


def test_coordinators_of_one_key_and_of_several() -> None:
    made = view()
    (several,) = find_coordinator_requests(0, ["g", "h"], 4)
    assert (several.coordinator_keys, several.key) == (["g", "h"], "")
    one, _ = find_coordinator_requests(0, ["g", "h"], 3)
    assert (one.coordinator_keys, one.key) == ([], "g")
    assert made.learn_coordinators(several, found(["g", "h"], 2)) == {}
    assert made.learn_coordinators(one, FindCoordinatorResponse(node_id=7, host="new", port=1)) == {}
    assert [made.coordinator(0, key) for key in ("g", "h", "i")] == [7, 2, None]
    assert (made.address(7), made.coordinator(1, "g")) == (("new", 1), None)
    made.learn(response())
    assert made.coordinator(0, "g") is None, "broker 7 is not in the cluster any more"


def test_a_coordinator_that_is_not_found_is_an_error() -> None:
    request = FindCoordinatorRequest(key="g", key_type=0)
    errors = view().learn_coordinators(request, FindCoordinatorResponse(error_code=15))
    assert str(errors["g"]).startswith("COORDINATOR_NOT_AVAILABLE: coordinator of g: ")


@pytest.mark.parametrize(
    ("disprove", "left"),
    [
        (lambda made: made.forget_roles(1), ([KEY[0]], None, None, 2)),
        (lambda made: made.forget_roles(2), ([], 1, 1, None)),
        (lambda made: made.forget_coordinators(0, ["g"]), ([], 1, None, 2)),
        (lambda made: made.forget_controller(), ([], None, 1, 2)),
        (lambda made: made.forget_topics(["orders"]), ([KEY[0]], 1, 1, 2)),
    ],
)
def test_what_is_disproved_is_forgotten_and_the_rest_stays(
    disprove: Callable[[ClusterView], None], left: object
) -> None:
    made = view()
    (request,) = find_coordinator_requests(0, ["g"], 4)
    made.learn_coordinators(request, found(["g"], 1))
    made.learn_coordinators(request, found(["h"], 2))
    disprove(made)
    assert (
        made.unknown_topics(["orders"]),
        made.controller_id,
        made.coordinator(0, "g"),
        made.coordinator(0, "h"),
    ) == left
    assert made.brokers.keys() == {1, 2}
