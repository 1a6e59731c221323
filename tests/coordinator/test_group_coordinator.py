"""The group coordinator and its runtime: elections, loading, parking, timeouts, the order of outcomes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from coordinator.group.classic.group import GroupState
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import offset_record
from coordinator.group.settings import GroupSettings
from coordinator.group_coordinator import GroupCoordinatorSettings
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.records.batch import read_header
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch
from tests.coordinator.requests import (
    commit_request,
    delete_offsets_request,
    fetch_group,
    heartbeat_request,
    join_request,
    sync_request,
)
from tests.coordinator.world import START_MS, MemoryLog, World

ORDERS_0 = ("orders", 0)


def committed_offset(world: World, group_id: str = "g") -> int:
    group = world.groups.fetch_offsets(fetch_group(group_id, [ORDERS_0]), require_stable=False)
    assert group.error == ErrorCode.NONE
    found = group.topic_partitions["orders"][0]
    return found.offset if isinstance(found, CommittedOffset) else -1


async def two_members(world: World, group_id: str = "g") -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """A generation of two that waits for its assignment; the leader first."""
    joins = [asyncio.create_task(world.groups.join_group(join_request(group_id), 3, name, "/h")) for name in "ab"]
    await world.settle()
    await world.advance(6_000)
    first, second = [join.result() for join in joins]
    assert first.leader == first.member_id
    return first, second


async def test_two_consumers_form_a_group_commit_and_fetch() -> None:
    async with World() as world:
        await world.lead()
        leader, follower = await two_members(world)
        assert len(leader.members) == 2 and follower.members == []
        following = asyncio.create_task(world.groups.sync_group(sync_request("g", follower.member_id, 1)))
        await world.settle()
        assert not following.done()
        assignments = {leader.member_id: b"x", follower.member_id: b"y"}
        led = await world.groups.sync_group(sync_request("g", leader.member_id, 1, assignments))
        assert (led.assignment, (await following).assignment) == (b"x", b"y")
        assert world.groups.heartbeat(heartbeat_request("g", leader.member_id, 1)) is ErrorCode.NONE
        response = await world.groups.commit_offsets(
            commit_request("g", {ORDERS_0: 42}, member_id=leader.member_id, generation_id=1)
        )
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert committed_offset(world) == 42
        assert world.groups.state_counts()[GroupState.STABLE] == 1
        assert world.groups.offsets_count() == 1
        left = world.groups.leave_group("g", [MemberIdentity(member_id=leader.member_id)])
        assert left.members[0].error_code == ErrorCode.NONE


async def test_requests_are_refused_by_what_is_wrong_first() -> None:
    async with World() as world:

        async def errors(group_id: str) -> list[int]:
            groups = world.groups
            joined = await groups.join_group(join_request(group_id), 3, "a", "/h")
            synced = await groups.sync_group(sync_request(group_id, "m", 1))
            deleted = await groups.delete_offsets(delete_offsets_request(group_id, [ORDERS_0]))
            return [
                joined.error_code,
                synced.error_code,
                groups.heartbeat(heartbeat_request(group_id, "m", 1)),
                groups.leave_group(group_id, []).error_code,
                deleted.error_code,
            ]

        async def lenient_errors(group_id: str) -> list[int]:
            groups = world.groups
            committed = await groups.commit_offsets(commit_request(group_id, {ORDERS_0: 1}))
            deleted = await groups.delete_groups([group_id])
            return [
                committed.topics[0].partitions[0].error_code,
                groups.fetch_offsets(fetch_group(group_id), require_stable=False).error,
                groups.describe_group(group_id).error_code,
                deleted[0].error_code,
            ]

        assert await errors("") == [ErrorCode.INVALID_GROUP_ID] * 5
        assert await errors("g") == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 5
        assert await lenient_errors("") == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 4
        assert await world.groups.list_groups([], []) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        world.groups.start()
        assert await errors("g") == [ErrorCode.NOT_COORDINATOR] * 5
        assert await lenient_errors("g") == [ErrorCode.NOT_COORDINATOR] * 4
        assert await world.groups.list_groups([], []) == (ErrorCode.NONE, [])
        world.log.gate = asyncio.Event()
        await world.lead()
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # Members are told to join again, or nothing at all: old clients know no "loading" there.
        assert await errors("g") == [loading, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE, loading, loading]
        assert await lenient_errors("g") == [loading] * 4
        assert await world.groups.list_groups([], []) == (loading, [])
        world.log.gate.set()
        await world.settle()
        assert await lenient_errors("") == [0, 0, 0, 0]


async def test_a_new_leader_serves_what_the_old_one_stored() -> None:
    log = MemoryLog()
    async with World(log=log) as world:
        await world.lead()
        leader, follower = await two_members(world)
        assignments = {leader.member_id: b"x", follower.member_id: b"y"}
        await world.groups.sync_group(sync_request("g", leader.member_id, 1, assignments))
        await world.groups.commit_offsets(commit_request("simple", {ORDERS_0: 7}, metadata="note"))
    async with World(log=log) as world:
        await world.lead()
        described = world.groups.describe_group("g")
        assert described.group_state == "Stable"
        assert {member.member_id: member.member_assignment for member in described.members} == assignments
        assert committed_offset(world, "simple") == 7
        assert world.groups.heartbeat(heartbeat_request("g", leader.member_id, 1)) is ErrorCode.NONE
        await world.advance(1)  # the first look at what has expired
        # Whoever does not heartbeat to the new coordinator is removed.
        await world.advance(10_000)
        assert world.groups.describe_group("g").group_state == "Empty"


async def test_open_transactions_load_and_end_with_their_marker() -> None:
    def batch(offset: int, producer_id: int, topic: str) -> bytes:
        record = offset_record("g", (topic, 0), CommittedOffset(offset, -1, "", START_MS))
        content = Record(0, START_MS, record.key, record.value, [])
        return encode_batch(
            [content], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )

    def marker(producer_id: int, *, committed: bool) -> bytes:
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        return encode_marker(EndTxnMarker(kind, 0, START_MS), producer_id=producer_id, producer_epoch=0)

    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        for each in (batch(1, 10, "committed"), batch(2, 11, "aborted"), batch(3, 12, "open")):
            log.add(0, each)
        log.add(0, marker(10, committed=True))
        log.add(0, marker(11, committed=False))
        await world.lead()
        places = [("committed", 0), ("aborted", 0), ("open", 0)]
        found = world.groups.fetch_offsets(fetch_group("g", places), require_stable=True)
        first, *others = [partitions[0] for partitions in found.topic_partitions.values()]
        assert isinstance(first, CommittedOffset) and first.offset == 1
        assert others == [None, ErrorCode.UNSTABLE_OFFSET_COMMIT]


@pytest.mark.parametrize("magic", [0, 1])
async def test_offsets_that_brokers_of_old_stored(magic: int) -> None:
    """In message sets: a record of before record batches is what it was."""
    log = MemoryLog()
    stored = [
        Record(at, START_MS, record.key, record.value)
        for at, offset in enumerate((5, 6))
        for record in [offset_record("g", ORDERS_0, CommittedOffset(offset, -1, "", START_MS))]
    ]
    log.batches_of[0] = [encode_message_set(stored, magic, compression=Compression.GZIP)]
    log.end_offsets[0] = 2
    async with World(log=log, partitions_count=1) as world:
        await world.lead()
        assert committed_offset(world) == 6


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("is_loading", [True, False])
async def test_a_marker_that_is_written_while_this_broker_leads(committed: bool, is_loading: bool) -> None:
    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        record = offset_record("g", ORDERS_0, CommittedOffset(5, -1, "", START_MS))
        content = Record(0, START_MS, record.key, record.value, [])
        log.add(0, encode_batch([content], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
        if is_loading:
            world.groups.start()
            world.groups.runtime.on_leadership(0, 0)
        else:
            await world.lead()
            unstable = world.groups.fetch_offsets(fetch_group("g", [ORDERS_0]), require_stable=True)
            assert unstable.topic_partitions["orders"][0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        world.groups.on_transaction_ended(0, 7, committed=committed)
        world.groups.on_transaction_ended(3, 7, committed=committed)  # a partition of others
        await world.settle()
        assert committed_offset(world) == (5 if committed else -1)


async def test_a_long_load_lets_others_run() -> None:
    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        world.groups.start()
        for offset in range(20):
            record = offset_record("g", ORDERS_0, CommittedOffset(offset, -1, "", START_MS))
            log.add(0, encode_batch([Record(0, START_MS, record.key, record.value, [])]))

        def slow_read() -> None:
            world.clock.now_ms += 5

        log.on_read = slow_read
        world.groups.runtime.on_leadership(0, 0)
        turns = 0
        while world.groups.describe_group("g").error_code != ErrorCode.NONE:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 20
        assert committed_offset(world) == 19


async def test_resignation_while_loading_ends_the_load() -> None:
    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        world.groups.start()
        log.gate = asyncio.Event()
        world.groups.runtime.on_leadership(0, 1)
        await world.settle()
        world.groups.runtime.on_resignation(0, 2)
        log.gate.set()
        await world.settle()
        assert world.groups.describe_group("g").error_code == ErrorCode.NOT_COORDINATOR
        assert len(world.tasks) == 0


async def test_resignation_answers_everything_parked() -> None:
    async with World() as world:
        await world.lead(leader_epoch=5)
        leader, _follower = await two_members(world)
        world.log.is_holding = True
        sync = asyncio.create_task(world.groups.sync_group(sync_request("g", leader.member_id, 1, {})))
        join = asyncio.create_task(world.groups.join_group(join_request("waiting"), 3, "c", "/h"))
        commit = asyncio.create_task(world.groups.commit_offsets(commit_request("simple", {ORDERS_0: 7})))
        await world.settle()
        for partition in range(4):
            world.groups.runtime.on_resignation(partition, 4)  # of an older leadership
        await world.settle()
        assert not (sync.done() or join.done() or commit.done())
        for partition in range(4):
            world.groups.runtime.on_resignation(partition, 6)
        assert (await sync).error_code == (await join).error_code == ErrorCode.NOT_COORDINATOR
        assert (await commit).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        world.log.commit_all()  # too late to matter
        await world.advance(60_000)
        assert world.groups.describe_group("g").error_code == ErrorCode.NOT_COORDINATOR


async def test_election_of_the_leader_itself_keeps_what_is_loaded() -> None:
    async with World() as world:
        await world.lead(leader_epoch=1)
        join = asyncio.create_task(world.groups.join_group(join_request("waiting"), 3, "c", "/h"))
        await world.settle()
        await world.lead(leader_epoch=2)
        assert world.groups.describe_group("waiting").group_state == "PreparingRebalance"
        world.groups.runtime.on_resignation(world.groups.partition_for("waiting"), 1)
        await world.advance(3_000)
        assert join.result().error_code == ErrorCode.NONE


async def test_a_log_that_cannot_be_read_is_not_served() -> None:
    async with World() as world:
        world.log.read_failure = OSError(5, "input/output error")
        await world.lead()
        assert world.groups.describe_group("g").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.log.read_failure = None
        await world.lead(leader_epoch=1)
        assert world.groups.describe_group("g").error_code == ErrorCode.NONE


async def test_a_refused_append_is_answered_and_leaves_nothing_behind() -> None:
    async with World() as world:
        await world.lead()
        world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        response = await world.groups.commit_offsets(commit_request("g", {ORDERS_0: 1}))
        assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert committed_offset(world) == -1
        world.log.refuse_with = None
        await world.groups.commit_offsets(commit_request("g", {ORDERS_0: 2}))
        assert committed_offset(world) == 2


async def test_a_slow_commit_is_answered_in_time_and_counts_when_it_comes() -> None:
    async with World() as world:
        await world.lead()
        world.log.is_holding = True
        commit = asyncio.create_task(world.groups.commit_offsets(commit_request("g", {ORDERS_0: 1})))
        await world.settle()
        await world.advance(4_999)
        assert not commit.done()
        await world.advance(1)
        assert (await commit).topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert committed_offset(world) == -1
        world.log.commit_all()
        assert committed_offset(world) == 1


async def test_outcomes_are_applied_in_the_order_of_the_log() -> None:
    async with World() as world:
        await world.lead()
        world.log.is_holding = True
        commits = [
            asyncio.create_task(world.groups.commit_offsets(commit_request("g", {ORDERS_0: offset})))
            for offset in (1, 2)
        ]
        await world.settle()
        first, second = world.log.waiting
        second[0](ErrorCode.NONE, second[1])
        await world.settle()
        assert not commits[1].done()
        first[0](ErrorCode.NONE, first[1])
        await world.settle()
        assert all(commit.done() for commit in commits)
        assert committed_offset(world) == 2


async def test_a_client_that_went_away_disturbs_nobody() -> None:
    async with World() as world:
        await world.lead()
        join = asyncio.create_task(world.groups.join_group(join_request(), 3, "a", "/h"))
        await world.settle()
        join.cancel()
        await world.advance(3_000)
        assert world.groups.describe_group("g").group_state == "CompletingRebalance"
        await world.advance(10_000)
        assert world.groups.describe_group("g").group_state == "Empty"


async def test_offsets_expire_by_the_clock() -> None:
    groups = GroupSettings(offsets_retention_ms=1_000_000)
    settings = GroupCoordinatorSettings(groups, retention_check_interval_ms=300_000)
    async with World(settings) as world:
        await world.lead()
        for name in ("g", "h", "i"):
            await world.groups.commit_offsets(commit_request(name, {ORDERS_0: 1}))
        await world.advance(900_000)
        assert world.groups.offsets_count() == 3
        await world.advance(300_000)
        assert world.groups.offsets_count() == 0
        assert await world.groups.list_groups([], []) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("retention_time_ms", [2**63 - 1, 2**63 - START_MS, 2**62])
async def test_offsets_may_be_kept_for_ever(retention_time_ms: int) -> None:
    groups = GroupSettings(offsets_retention_ms=1_000_000)
    settings = GroupCoordinatorSettings(groups, retention_check_interval_ms=300_000)
    async with World(settings) as world:
        await world.lead()
        response = await world.groups.commit_offsets(
            commit_request("g", {ORDERS_0: 5}, retention_time_ms=retention_time_ms)
        )
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        await world.advance(3_000_000)
        assert committed_offset(world) == 5


async def test_groups_of_several_partitions_are_deleted_together() -> None:
    async with World() as world:
        await world.lead()
        names = [f"group-{number}" for number in range(8)]
        for name in names:
            await world.groups.commit_offsets(commit_request(name, {ORDERS_0: 1}))
        assert len({world.groups.partition_for(name) for name in names}) > 1
        results = await world.groups.delete_groups([*names, "unknown"])
        assert [result.error_code for result in results] == [0] * 8 + [ErrorCode.GROUP_ID_NOT_FOUND]


async def test_offsets_of_deleted_partitions_go() -> None:
    async with World() as world:
        await world.lead()
        await world.groups.commit_offsets(commit_request("g", {ORDERS_0: 1, ("other", 0): 2}))
        world.groups.on_partitions_deleted([ORDERS_0])
        assert committed_offset(world) == -1
        assert world.groups.offsets_count() == 1


@pytest.mark.parametrize("compression", Compression)
async def test_records_are_compressed_as_the_topic_says(compression: Compression) -> None:
    settings = GroupCoordinatorSettings(compression=compression)
    log = MemoryLog()
    async with World(settings, log, partitions_count=1) as world:
        await world.lead()
        await world.groups.commit_offsets(commit_request("g", {ORDERS_0: 1}))
    header = read_header(log.batches_of[0][0], 0)
    assert header.compression is compression
    assert (header.producer_id, header.base_sequence) == (-1, -1)
    async with World(replace(settings, compression=Compression.NONE), log, partitions_count=1) as world:
        await world.lead()
        assert committed_offset(world) == 1


async def test_the_partition_count_is_that_of_the_topic_from_when_it_is_known() -> None:
    async with World(partitions_count=None) as world:
        world.groups.start()
        world.groups.runtime.on_leadership(0, 0)
        await world.settle()
        assert world.groups.partition_for("my-group") is None
        assert world.groups.describe_group("my-group").error_code == ErrorCode.NOT_COORDINATOR
        world.partitions_count = 1
        assert world.groups.partition_for("my-group") == 0
        assert world.groups.describe_group("my-group").error_code == ErrorCode.NONE
        world.partitions_count = 2
        assert world.groups.partition_for("my-group") == 0


async def test_an_answer_comes_though_the_leadership_ends_between_the_batches_of_one_removal() -> None:
    """The disk fails under the first batch, and takes the partition with it."""
    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        await world.lead()
        offsets = {("t" * 240 + str(number), 0): 1 for number in range(2_000)}
        await world.groups.commit_offsets(commit_request("g", offsets))
        log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        log.on_refusal = lambda: world.groups.runtime.on_resignation(0)
        async with asyncio.timeout(5):
            [deleted] = await world.groups.delete_groups(["g"])
        assert deleted.error_code == ErrorCode.NOT_COORDINATOR
