"""Members of a consumer group share its topics, and never own a partition twice."""

from __future__ import annotations

import pytest

from coordinator.group.assigned.entries import EntryKey, EntryKind, TargetEpoch
from coordinator.group.assigned.settings import ConsumerSettings, GroupConfigs
from coordinator.group.consumer.group import ConsumerGroup, ConsumerGroupState
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import TopicPartitions
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.consumer.members import GroupMember, image, settle, topic_id


def driver_of(**topics: int) -> GroupDriver:
    driver = GroupDriver()
    driver.change_topics(image(**topics))
    return driver


def group_of(driver: GroupDriver, group_id: str = "g") -> ConsumerGroup:
    return driver.shard._groups.consumer(group_id)


def test_the_first_member_gets_everything_at_once() -> None:
    driver = driver_of(t=3)
    member = GroupMember(driver, "a", ["t"])
    response = member.join()
    assert (response.error_code, response.member_epoch, member.partitions("t")) == (0, 2, {0, 1, 2})
    assert response.heartbeat_interval_ms == 5_000
    assert group_of(driver).state is ConsumerGroupState.STABLE
    quiet = member.beat(topic_partitions=None)
    assert (quiet.member_epoch, quiet.assignment) == (2, None)


def test_a_second_member_gets_what_the_first_has_given_up() -> None:
    driver = driver_of(t=4)
    first, second = GroupMember(driver, "a", ["t"]), GroupMember(driver, "b", ["t"])
    first.join()
    second.join()
    assert second.partitions("t") == set()
    driver.advance(1_000)
    second.beat()
    assert (second.epoch, second.partitions("t")) == (3, set())
    assert group_of(driver).state is ConsumerGroupState.RECONCILING
    assert first.beat().member_epoch == 2  # it gives up in its present epoch
    second.beat()
    assert second.partitions("t") == set()
    first.beat()
    second.beat()
    assert len(first.partitions("t")) == len(second.partitions("t")) == 2
    assert first.partitions("t") | second.partitions("t") == {0, 1, 2, 3}
    assert group_of(driver).state is ConsumerGroupState.STABLE
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_a_target_is_computed_though_the_clock_was_set_back() -> None:
    driver = driver_of(t=4)
    first, second = GroupMember(driver, "a", ["t"]), GroupMember(driver, "b", ["t"])
    first.join()
    second.join()
    key, later_ms = EntryKey(EntryKind.TARGET_EPOCH, "g"), group_of(driver).target_timestamp_ms + 3_600_000
    group_of(driver).put(key, TargetEpoch(group_of(driver).target_epoch, later_ms))
    settle(driver, [first, second])
    assert len(first.partitions("t")) == len(second.partitions("t")) == 2


def test_members_that_leave_or_fall_silent_are_replaced() -> None:
    driver = driver_of(t=3)
    members = [GroupMember(driver, name, ["t"]) for name in "abc"]
    for member in members:
        member.join()
    settle(driver, members)
    assert sorted(len(member.partitions("t")) for member in members) == [1, 1, 1]
    assert members[0].leave().member_epoch == -1
    settle(driver, members[1:])
    assert sorted(len(member.partitions("t")) for member in members[1:]) == [1, 2]
    for _ in range(10):
        driver.advance(5_000)
        members[1].beat()
    assert members[1].partitions("t") == {0, 1, 2}
    assert members[2].beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert members[1].leave().error_code == 0
    assert group_of(driver).state is ConsumerGroupState.EMPTY


def test_a_member_that_does_not_give_up_is_removed_after_its_rebalance_timeout() -> None:
    driver = driver_of(t=2)
    first = GroupMember(driver, "a", ["t"], rebalance_timeout_ms=10_000)
    second = GroupMember(driver, "b", ["t"])
    first.join()
    second.join()
    driver.advance(1_000)
    second.beat()
    kept = first._rows()
    for _ in range(2):
        assert first.beat(topic_partitions=kept).error_code == 0
        driver.advance(5_000)
    assert first.beat(topic_partitions=kept).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(driver, [second])
    assert second.partitions("t") == {0, 1}


def test_a_static_member_keeps_its_share_while_it_is_away() -> None:
    driver = driver_of(t=2)
    first, second = GroupMember(driver, "a", ["t"], instance_id="i"), GroupMember(driver, "b", ["t"])
    first.join()
    second.join()
    settle(driver, [first, second])
    owned = first.partitions("t")
    twin = GroupMember(driver, "c", ["t"], instance_id="i")
    assert twin.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.leave(-2).member_epoch == -2
    settle(driver, [second])
    assert len(second.partitions("t")) == 1
    assert twin.join().error_code == 0
    assert twin.partitions("t") == owned
    assert first.beat().error_code == ErrorCode.FENCED_INSTANCE_ID
    settle(driver, [second, twin])
    assert group_of(driver).state is ConsumerGroupState.STABLE
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_topics_that_come_grow_and_go() -> None:
    driver = driver_of()
    member = GroupMember(driver, "a", ["t", "u"])
    member.join()
    assert (member.epoch, member.owned) == (2, {})
    for topics, owned in (({"t": 1}, 1), ({"t": 2, "u": 3}, 5), ({"u": 3}, 3)):
        driver.change_topics(image(**topics))
        settle(driver, [member])
        assert sum(map(len, member.owned.values())) == owned
    assert member.epoch == 5


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_refused_append_changes_nothing(error: ErrorCode) -> None:
    driver = driver_of(t=2)
    first, second = GroupMember(driver, "a", ["t"]), GroupMember(driver, "b", ["t"])
    first.join()
    before = driver.shard.durable_state()
    driver.refuse_with = error
    assert second.join().error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert driver.shard.durable_state() == before
    assert GroupMember(driver, "x", ["t"], group_id="new").join().error_code
    assert "new" not in driver.shard._groups
    driver.refuse_with = None
    second.join()
    settle(driver, [first, second])
    assert first.partitions("t") | second.partitions("t") == {0, 1}
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_responses_wait_until_what_they_tell_is_committed() -> None:
    driver = driver_of(t=2)
    member = GroupMember(driver, "a", ["t"])
    driver.is_holding = True
    joined = member.start(rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[], member_epoch=0)
    again = member.start(member_epoch=2)
    assert driver.responses == []
    driver.release()
    assert {waiter for waiter, _ in driver.responses} == {joined, again}


LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_epoch": LARGEST}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_epoch": 1}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -LARGEST - 1}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"topic_partitions": [TopicPartitions(topic_id=bytes(16), partitions=[-1, LARGEST])]}, ErrorCode.NONE),
        ({"topic_partitions": [TopicPartitions(topic_id=topic_id("t"), partitions=[7] * 9)]}, ErrorCode.NONE),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_names": ["t"] * 5}, ErrorCode.NONE),
        ({"rebalance_timeout_ms": -LARGEST}, ErrorCode.NONE),
    ],
)
def test_requests_of_hostile_members(fields: dict[str, object], error: ErrorCode) -> None:
    """Whatever a member claims, it gets no more than its own, and what is refused changes nothing."""
    driver = driver_of(t=2)
    honest, hostile = GroupMember(driver, "a", ["t"]), GroupMember(driver, "b", ["t"])
    for member in (honest, hostile):
        member.join()
    settle(driver, [honest, hostile])
    owned, before = honest.partitions("t"), driver.shard.durable_state()
    assert hostile.send(**fields).error_code == error
    if error:
        assert driver.shard.durable_state() == before
    settle(driver, [honest, hostile])
    assert honest.partitions("t") == owned
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_a_full_group_takes_no_new_member() -> None:
    driver = GroupDriver(configs=GroupConfigs(ConsumerSettings(max_size=1)))
    driver.change_topics(image(t=1))
    first, second = GroupMember(driver, "a", ["t"]), GroupMember(driver, "b", ["t"])
    assert first.join().error_code == 0
    assert second.join().error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert first.join().error_code == 0
