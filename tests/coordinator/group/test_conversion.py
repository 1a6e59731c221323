"""Groups that move between the protocols while members are in them."""

from __future__ import annotations

import pytest

from client.membership.assignors import encode_assignment
from coordinator.group.assigned.settings import ConsumerSettings, GroupConfigs, MigrationPolicy
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.rebalance import SessionTimer
from coordinator.group.consumer.group import ConsumerGroup, ConsumerGroupState
from coordinator.group.consumer.membership import ConsumerSessionTimer
from coordinator.group.consumer.timers import FetchAssignmentTimer, RejoinTimer
from coordinator.group.settings import GroupSettings
from protocol.errors import ErrorCode
from protocol.stored.consumer_protocol import ConsumerProtocolAssignment
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.consumer.classic_clients import ClassicClient, rebalanced, stable
from tests.coordinator.group.consumer.members import GroupMember, image, settle
from tests.coordinator.requests import commit_request

PARTITIONS = 6
ALL = {("t", partition) for partition in range(PARTITIONS)}


def driver_of(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **settings: int) -> GroupDriver:
    configs = GroupConfigs(ConsumerSettings(migration_policy=policy, max_size=settings.pop("consumer_max_size", 100)))
    driver = GroupDriver(GroupSettings(**settings), configs)
    driver.change_topics(image(t=PARTITIONS))
    return driver


def group_of(driver: GroupDriver) -> ClassicGroup | ConsumerGroup:
    group = driver.shard._groups.find("g")
    assert group is not None
    return group


def owned(*members: ClassicClient | GroupMember) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for member in members:
        found += member.owned if isinstance(member, ClassicClient) else [("t", each) for each in member.partitions("t")]
    assert len(found) == len(set(found)), "a partition has two owners"
    return sorted(found)


def settle_both(driver: GroupDriver, *members: ClassicClient | GroupMember) -> None:
    for _ in range(8):
        driver.advance(1_000)
        for member in members:
            member.beat()
            owned(*members)


def upgraded(driver: GroupDriver) -> tuple[ClassicClient, ClassicClient, GroupMember]:
    first, second, third = (
        ClassicClient(driver, "a", ["t"]),
        ClassicClient(driver, "b", ["t"]),
        GroupMember(driver, "c", ["t"]),
    )
    stable(driver, first, second)
    assert third.join().error_code == 0
    return first, second, third


def test_a_first_member_of_the_new_protocol_makes_it_a_consumer_group() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    group = group_of(driver)
    assert isinstance(group, ConsumerGroup)
    assert (group.epoch, third.epoch, third.partitions("t"), group.classic_members_count) == (2, 2, set(), 2)
    assert not any(isinstance(each, SessionTimer) for each in driver.timers)
    assert first.heartbeat() is second.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.rejoin() is ErrorCode.NONE  # gives up one partition, and keeps its generation
    assert (first.generation_id, len(first.owned)) == (1, 2)
    settle_both(driver, first, second, third)
    assert [len(first.owned), len(second.owned), len(third.partitions("t"))] == [2, 2, 2]
    assert owned(first, second, third) == sorted(ALL)
    assert group.state is ConsumerGroupState.STABLE
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_member_by_member_to_the_new_protocol_and_back() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    settle_both(driver, first, second, third)
    assert first.leave() == [ErrorCode.NONE]
    fourth = GroupMember(driver, "d", ["t"])
    fourth.join()
    settle_both(driver, second, third, fourth)
    assert second.leave() == [ErrorCode.NONE]
    settle_both(driver, third, fourth)
    group = group_of(driver)
    assert isinstance(group, ConsumerGroup)
    assert (group.classic_members_count, owned(third, fourth)) == (0, sorted(ALL))

    back = ClassicClient(driver, "e", ["t"])
    assert back.rejoin() is ErrorCode.NONE
    settle_both(driver, back, third, fourth)
    third.leave()
    settle_both(driver, back, fourth)
    assert owned(back, fourth) == sorted(ALL)
    epoch = group.epoch
    fourth.leave()
    classic = group_of(driver)
    assert isinstance(classic, ClassicGroup)
    assert (classic.state, classic.generation_id) == (GroupState.PREPARING_REBALANCE, epoch)
    assert back.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    rebalanced(driver, back)
    assert (classic.state, sorted(back.owned)) == (GroupState.STABLE, sorted(ALL))
    assert not any(
        isinstance(each, ConsumerSessionTimer | RejoinTimer | FetchAssignmentTimer) for each in driver.timers
    )
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


@pytest.mark.parametrize("how", ["leaves", "falls silent"])
def test_members_of_the_classic_protocol_that_are_left_have_a_classic_group(how: str) -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    settle_both(driver, first, second, third)
    commit = commit_request("g", {("t", 0): 5}, member_id=first.member_id, generation_id=first.generation_id)
    driver.do(lambda shard, now_ms: shard.commit_offsets(commit, "commit", now_ms))
    if how == "leaves":
        third.leave()
    else:
        for _ in range(50):
            driver.advance(1_000)
            first.heartbeat(), second.heartbeat()
    group = group_of(driver)
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == [first.member_id, second.member_id]
    rebalanced(driver, first, second)
    assert owned(first, second) == sorted(ALL)
    assert group.offsets.committed_offsets()["t", 0].offset == 5


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_without_downgrade_the_group_stays_a_consumer_group(policy: MigrationPolicy) -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    settle_both(driver, first, second, third)
    driver.configs.settings = ConsumerSettings(migration_policy=policy)
    third.leave()
    settle_both(driver, first, second)
    assert isinstance(group_of(driver), ConsumerGroup)
    assert owned(first, second) == sorted(ALL)


def test_a_group_that_is_too_large_for_the_classic_protocol_stays_a_consumer_group() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    driver.shard._consumers._conversion._settings = GroupSettings(max_size=1)
    third.leave()
    settle_both(driver, first, second)
    assert isinstance(group_of(driver), ConsumerGroup)


@pytest.mark.parametrize(
    ("policy", "consumer_max_size", "protocol_type", "metadata", "message"),
    [
        (MigrationPolicy.DISABLED, 9, "consumer", None, "online upgrade is disabled."),
        (MigrationPolicy.DOWNGRADE, 9, "consumer", None, "online upgrade is disabled."),
        (
            MigrationPolicy.UPGRADE,
            0,
            "consumer",
            None,
            "the group size exceeds the consumer group maximum size.",
        ),
        (MigrationPolicy.UPGRADE, 9, "connect", None, "the group does not use the consumer embedded protocol."),
        (MigrationPolicy.UPGRADE, 9, "consumer", b"\0", "the embedded consumer protocol is malformed."),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_a_classic_group(
    policy: MigrationPolicy, consumer_max_size: int, protocol_type: str, metadata: bytes | None, message: str
) -> None:
    driver = driver_of(policy, consumer_max_size=consumer_max_size)
    client = ClassicClient(driver, "a", ["t"], protocol_type=protocol_type)
    waiter = client.join(metadata)
    driver.advance(6_000)
    client.generation_id = 1
    timers = dict(driver.timers)
    response = GroupMember(driver, "c", ["t"]).join()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message == f"Cannot upgrade classic group g to consumer group because {message}"
    assert isinstance(group_of(driver), ClassicGroup)
    assert driver.timers == timers
    assert client.heartbeat() is ErrorCode.NONE
    assert client.answer(waiter) is not None


def test_data_of_a_custom_assignor_is_not_thrown_away() -> None:
    driver = driver_of()
    client = ClassicClient(driver, "a", ["t"])
    stable(driver, client)
    group = group_of(driver)
    assert isinstance(group, ClassicGroup)
    member = group.members[client.member_id]
    member.assignment = ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"x").encode_stored(1)
    response = GroupMember(driver, "c", ["t"]).join()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "because an unsupported custom assignor is in use." in (response.error_message or "")


def test_a_leader_that_errs_gives_no_partition_to_two_members() -> None:
    driver = driver_of()
    first, second = ClassicClient(driver, "a", ["t"]), ClassicClient(driver, "b", ["t"])
    stable(driver, first, second)
    group = group_of(driver)
    assert isinstance(group, ClassicGroup)
    for member in group.members.values():
        member.assignment = encode_assignment([("t", 0), ("t", 1), ("t", 1), ("t", -1), ("t", 99), ("gone", 0)])
    third = GroupMember(driver, "c", ["t"])
    assert third.join().error_code == 0
    first.owned = second.owned = set()
    settle_both(driver, first, second, third)
    assert owned(first, second, third) == sorted(ALL)


def test_an_upgrade_is_taken_back_with_the_heartbeat_that_caused_it() -> None:
    driver = driver_of()
    client = ClassicClient(driver, "a", ["t"])
    stable(driver, client)
    before = driver.shard.durable_state()
    response = GroupMember(driver, "c", regex="(").join()
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert driver.shard.durable_state() == before
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert GroupMember(driver, "d", ["t"]).join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.refuse_with = None
    assert driver.shard.durable_state() == before
    assert client.heartbeat() is ErrorCode.NONE
    assert SessionTimer("g", client.member_id) in driver.timers


def test_a_downgrade_that_cannot_be_stored_is_taken_back() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    settle_both(driver, first, second, third)
    before = driver.shard.durable_state()
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert third.leave().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.refuse_with = None
    assert driver.shard.durable_state() == before
    assert first.heartbeat() is ErrorCode.NONE
    settle_both(driver, first, second, third)
    assert owned(first, second, third) == sorted(ALL)


def test_a_group_that_is_still_waiting_for_members_is_upgraded() -> None:
    driver = driver_of()
    client = ClassicClient(driver, "a", ["t"])
    waiter = client.join()
    third = GroupMember(driver, "c", ["t"])
    assert third.join().error_code == 0
    assert client.joined(waiter) is ErrorCode.REBALANCE_IN_PROGRESS
    assert client.rejoin() is ErrorCode.NONE
    settle_both(driver, client, third)
    assert owned(client, third) == sorted(ALL)


@pytest.mark.parametrize("is_stale", [False, True])
def test_the_last_static_member_goes_back_to_the_classic_protocol(is_stale: bool) -> None:
    driver = driver_of()
    client = ClassicClient(driver, "a", ["t"])
    stable(driver, client)
    static = GroupMember(driver, "c", ["t"], instance_id="i")
    static.join()
    settle_both(driver, client, static)
    static.leave(-2)
    if is_stale:
        driver.change_topics(image(t=PARTITIONS + 1))
        driver.configs.settings = ConsumerSettings()
    back = ClassicClient(driver, "d", ["t"], instance_id="i")
    expected = ErrorCode.ILLEGAL_GENERATION if is_stale else ErrorCode.NONE
    back.owned = set()
    waiter = back.join()
    group = group_of(driver)
    assert isinstance(group, ClassicGroup)
    assert back.joined(waiter) in (expected, ErrorCode.REBALANCE_IN_PROGRESS)
    assert set(group.static_members) == {"i"}
    assert group.state is (GroupState.PREPARING_REBALANCE if is_stale else GroupState.STABLE)
    if not is_stale:
        assert owned(client, back) == sorted(ALL)


def test_a_static_member_moves_to_the_new_protocol() -> None:
    driver = driver_of()
    clients = [ClassicClient(driver, name, ["t"], instance_id=name) for name in "ab"]
    stable(driver, *clients)
    moved = GroupMember(driver, "c", ["t"], instance_id="a")
    assert moved.join().error_code == 0
    settle_both(driver, clients[1], moved)
    assert owned(clients[1], moved) == sorted(ALL)
    assert clients[0].heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_does_not_rejoin_or_synchronise_is_removed() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    waiter = first.join()  # no SyncGroup follows
    assert first.answer(waiter) is not None
    for _ in range(70):
        driver.advance(1_000)
        first.heartbeat()
        second.heartbeat()  # is told to rejoin, and does not
        third.beat()
    group = group_of(driver)
    assert isinstance(group, ConsumerGroup)
    assert list(group.subscriptions) == ["c"]
    settle(driver, [third])
    assert owned(third) == sorted(ALL)


def test_requests_of_the_classic_protocol_that_do_not_fit() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    settle_both(driver, first, second, third)
    other = ClassicClient(driver, "x", ["t"], protocol_type="connect")
    assert other.rejoin() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (
        ClassicClient(driver, "y", ["t"], member_id="c", generation_id=third.epoch).heartbeat()
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert ClassicClient(driver, "y", ["t"], member_id="nobody").heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert ClassicClient(driver, "y", ["t"], member_id="nobody").leave() == [ErrorCode.UNKNOWN_MEMBER_ID]
    first.generation_id += 1
    assert first.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert first.synced(first.sync()) is ErrorCode.ILLEGAL_GENERATION


def test_a_mixed_group_is_loaded_by_the_next_coordinator() -> None:
    driver = driver_of()
    first, second, third = upgraded(driver)
    settle_both(driver, first, second, third)
    driver.reload()
    settle_both(driver, first, second, third)
    assert owned(first, second, third) == sorted(ALL)
    assert isinstance(group_of(driver), ConsumerGroup)
