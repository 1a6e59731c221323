"""Members of a share group get the partitions of their topics whose states the share coordinator keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.group.assigned.settings import GroupConfigs, ShareSettings
from coordinator.group.share.group import ShareGroupState
from coordinator.group.share.state_keeping import InitializeShareStates, NewState
from metadata.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.consumer.members import GroupMember
from tests.coordinator.group.share.members import (
    ShareMember,
    answer_commands,
    driver_of,
    group_of,
    image,
    settle,
    topic_id,
)


def other_image(name: str, other_id: bytes) -> ClusterImage:
    topic = replace(image(**{name: 1}).topics[name], topic_id=other_id)
    return ClusterImage(topics={name: topic}, names_by_id={other_id: name})


def test_a_member_gets_its_partitions_when_their_states_are_initialized() -> None:
    driver = driver_of(t=2)
    member = ShareMember(driver, "a", ["t"])
    joined = member.join()
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 2, 5_000)
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == []
    [command] = driver.commands
    assert isinstance(command, InitializeShareStates)
    assert command.rows == (NewState(topic_id("t"), 0, 2, -1), NewState(topic_id("t"), 1, 2, -1))
    assert member.beat().assignment is None
    assert len(driver.commands) == 1  # asked once
    answer_commands(driver)
    driver.advance(1_000)
    assert member.beat().member_epoch == 3
    assert member.partitions("t") == {0, 1}
    assert group_of(driver).state is ShareGroupState.STABLE
    assert (member.beat().assignment, driver.commands) == (None, [])
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_more_members_than_partitions_share_them() -> None:
    driver = driver_of(t=2)
    members = [ShareMember(driver, name, ["t"]) for name in "abcd"]
    for member in members:
        member.join()
    settle(driver, members)
    assert sorted(min(member.partitions("t")) for member in members) == [0, 0, 1, 1]
    assert members[0].leave().member_epoch == -1
    settle(driver, members[1:])
    assert {partition for member in members[1:] for partition in member.partitions("t")} == {0, 1}
    for member in members[1:]:
        member.leave()
    group = group_of(driver)
    assert (group.state, dict(group.targets)) == (ShareGroupState.EMPTY, {})
    assert group.partitions.initialized == {topic_id("t"): frozenset({0, 1})}
    driver.do(lambda shard, now_ms: shard.expire("g", now_ms + 10**12))
    assert group_of(driver) is group  # it stays until somebody deletes it


def test_topics_grow_go_and_are_made_again() -> None:
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    member.join()
    settle(driver, [member])
    driver.change_topics(image(t=3))
    member.beat()
    assert answer_commands(driver) == {(topic_id("t"), 1), (topic_id("t"), 2)}
    settle(driver, [member])
    assert member.partitions("t") == {0, 1, 2}
    driver.change_topics(image())
    assert group_of(driver).partitions.names == {}
    settle(driver, [member])
    assert member.assigned == {}
    driver.change_topics(image(t=1))
    settle(driver, [member])
    assert member.partitions("t") == {0}
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


@pytest.mark.parametrize(("is_answered", "pause_ms"), [(True, 1_000), (False, 30_000)])
def test_states_are_asked_for_again_in_a_newer_epoch(is_answered: bool, pause_ms: int) -> None:
    """A request that comes late is of an older epoch than the states that members use by then."""
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    member.join()
    if is_answered:
        answer_commands(driver, ErrorCode.NOT_COORDINATOR)
        assert group_of(driver).partitions.initializing == {}
    driver.commands.clear()
    member.beat()
    assert driver.commands == []
    driver.advance(pause_ms)
    assert member.beat().member_epoch == 3
    [command] = driver.commands
    assert isinstance(command, InitializeShareStates)
    assert command.rows == (NewState(topic_id("t"), 0, 3, -1),)


def test_another_coordinator_asks_for_states_whose_outcome_it_does_not_know() -> None:
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    member.join()
    driver.commands.clear()
    driver.reload()
    driver.advance(1_000)
    assert member.beat().member_epoch == 3
    assert answer_commands(driver) == {(topic_id("t"), 0)}
    settle(driver, [member])
    assert member.partitions("t") == {0}
    driver.reload()
    assert (member.beat().error_code, driver.commands) == (0, [])
    driver.advance(45_000)
    assert member.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID  # its session began anew with the load, and ended


def test_a_topic_that_was_made_again_while_nobody_coordinated_the_group_is_another_one() -> None:
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    member.join()
    settle(driver, [member])
    driver.unload()
    driver.topics.update(other_image("t", b"other".ljust(16)), driver.now_ms)
    driver.load()
    settle(driver, [member])
    assert list(group_of(driver).partitions.names) == [b"other".ljust(16)]
    assert member.assigned == {b"other".ljust(16): {0}}


def test_nothing_is_asked_for_before_the_record_of_it_is_committed() -> None:
    driver = driver_of(t=1)
    driver.is_holding = True
    member = ShareMember(driver, "a", ["t"])
    waiter = member.start(subscribed_topic_names=["t"])
    assert (driver.commands, driver.responses) == ([], [])
    driver.release()
    assert [each for each, _ in driver.responses] == [waiter]
    assert len(driver.commands) == 1


def test_a_heartbeat_whose_records_are_refused_changes_nothing() -> None:
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert member.join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (driver.shard.group_ids(), driver.commands) == ([], [])
    driver.refuse_with = None
    member.join()
    settle(driver, [member])
    assert member.partitions("t") == {0}


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"member_id": " "}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        (
            {"member_epoch": 0, "subscribed_topic_names": []},
            ErrorCode.INVALID_REQUEST,
            "SubscribedTopicNames must be set in first request.",
        ),
        ({"group_id": "x"}, ErrorCode.GROUP_ID_NOT_FOUND, "Share group x not found."),
        ({"group_id": "x", "member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found."),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g."),
        ({"member_id": "x", "member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g."),
        (
            {"member_epoch": 9},
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The share group member has a greater member epoch (9) than the one known by the group coordinator (3). "
            "The member must abandon all its partitions and rejoin.",
        ),
        (
            {"member_epoch": 1},
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), and it "
            "does not match the previous member epoch (2). The member must abandon all its partitions and rejoin.",
        ),
        ({"member_epoch": 2}, ErrorCode.NONE, None),  # its last response may be lost
    ],
)
def test_what_is_refused(fields: dict[str, Any], error: ErrorCode, text: str | None) -> None:
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    member.join()
    settle(driver, [member])
    before = driver.shard.durable_state()
    response = member.send(**fields)
    assert (response.error_code, response.error_message) == (error, text)
    assert driver.shard.durable_state() == before


def test_a_group_has_a_largest_size() -> None:
    driver = GroupDriver(configs=GroupConfigs(share=ShareSettings(max_size=1)))
    driver.change_topics(image(t=1))
    ShareMember(driver, "a", ["t"]).join()
    refused = ShareMember(driver, "b", ["t"]).join()
    text = "The share group has reached its maximum capacity of 1 members."
    assert (refused.error_code, refused.error_message) == (ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def test_groups_of_other_kinds_are_not_share_groups() -> None:
    driver = driver_of(t=1)
    consumer, share = GroupMember(driver, "c", ["t"], group_id="c"), ShareMember(driver, "s", ["t"], group_id="s")
    consumer.join()
    share.join()
    refused = share.send(group_id="c", member_epoch=0, subscribed_topic_names=["t"])
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group c is not a share group.",
    )
    consumer.group_id = "s"
    other: ConsumerGroupHeartbeatResponse = consumer.join()
    assert (other.error_code, other.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group s is not a consumer group.")
    described = driver.shard.describe_share("c")
    assert (described.error_code, described.error_message) == (69, "Group c is not a share group.")


def test_a_group_is_described_and_listed() -> None:
    driver = driver_of(t=1)
    member = ShareMember(driver, "a", ["t"])
    member.join(rack_id="r")
    settle(driver, [member])
    described = driver.shard.describe_share("g")
    [row] = described.members
    assert (described.group_state, described.group_epoch, described.assignor_name) == ("Stable", 3, "simple")
    assert (row.member_id, row.rack_id, row.member_epoch, row.subscribed_topic_names) == ("a", "r", 3, ["t"])
    assert [(each.topic_name, each.partitions) for each in row.assignment.topic_partitions] == [("t", [0])]
    [listed] = driver.shard.list_groups({"stable"}, {"share"})
    assert (listed.group_id, listed.group_type, listed.protocol_type) == ("g", "share", "share")
    assert driver.shard.list_groups(set(), {"consumer"}) == []
