"""Groups in a cluster whose `inter.broker.protocol.version` is an older one: another broker of it may load them next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from broker.composition import group_coordinator_settings
from broker.handlers.groups.heartbeat import heartbeat
from broker.handlers.groups.join_group import join_group
from broker.handlers.groups.leave_group import leave_group
from broker.handlers.groups.offset_commit import offset_commit
from broker.handlers.groups.sync_group import sync_group
from config.broker import BrokerSettings
from coordinator.group.records import GroupKey, OffsetKey, read_key
from coordinator.group_coordinator import GroupCoordinatorSettings
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.records.batch import iter_headers
from protocol.records.record import iter_records
from protocol.stored.stored import stored_version
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request, heartbeat_request, join_request, sync_request
from tests.coordinator.world import MemoryLog


def settings_of(version: str) -> GroupCoordinatorSettings:
    return group_coordinator_settings(BrokerSettings({"inter.broker.protocol.version": version}))


def versions_in(log: MemoryLog, kind: type[OffsetKey | GroupKey]) -> set[int]:
    """Of the values of this kind."""
    batches: Iterable[bytes] = (batch for batches in log.batches_of.values() for batch in batches)
    return {
        stored_version(record.value)
        for batch in batches
        for position, header in iter_headers(batch)
        for record in iter_records(batch, position, header, 1 << 20)
        if record.key is not None and record.value is not None and isinstance(read_key(record.key), kind)
    }


@pytest.mark.parametrize(
    ("version", "of_offsets", "of_groups"),
    [("0.11.0", 1, 1), ("2.0", 1, 1), ("2.1-IV0", 2, 2), ("2.2", 3, 2), ("2.3-IV0", 3, 3), ("3.9", 3, 3)],
)
async def test_records_are_written_as_every_broker_reads_them(version: str, of_offsets: int, of_groups: int) -> None:
    """A commit; a group that becomes stable, and one that becomes empty."""
    async with GroupBroker(groups=settings_of(version)) as broker:
        place = ("orders", 0)
        await offset_commit(commit_request("g", {place: 7}), broker.context(8))
        assert versions_in(broker.world.log, OffsetKey) == {of_offsets}
        await offset_commit(commit_request("g", {place: 8}, retention_time_ms=1_000), broker.context(4))
        assert versions_in(broker.world.log, OffsetKey) == {1, of_offsets}
        joining = asyncio.ensure_future(join_group(join_request("g"), broker.context(0)))
        await broker.world.settle()
        await broker.world.advance(3_000)
        member_id = (await joining).member_id
        await sync_group(sync_request("g", member_id, 1, {member_id: b"a"}), broker.context(5))
        assert versions_in(broker.world.log, GroupKey) == {of_groups}
        leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
        await leave_group(leaving, broker.context(3))
        await broker.world.settle()
        assert sum(map(len, broker.world.log.batches_of.values())) == 4, "the group is empty"
        assert versions_in(broker.world.log, GroupKey) == {of_groups}


async def test_a_static_member_that_returns_is_stored_as_every_broker_reads_it() -> None:
    async with GroupBroker(groups=settings_of("2.3-IV0")) as broker:
        for generation in (1, 1):  # the second time it changes nothing for the others
            joining = asyncio.ensure_future(join_group(join_request("g", instance="i"), broker.context(7)))
            await broker.world.settle()
            await broker.world.advance(3_000)
            joined = await joining
            assert joined.generation_id == generation
            if not broker.world.log.batches_of:
                await sync_group(sync_request("g", joined.member_id, 1, {joined.member_id: b""}), broker.context(5))
        assert versions_in(broker.world.log, GroupKey) == {3}


@pytest.mark.parametrize(("version", "are_taken"), [("2.2", False), ("2.3-IV0", True)])
async def test_static_members_are_refused_before_all_brokers_know_them(version: str, are_taken: bool) -> None:
    """A broker that does not would drop their instance ids when it loads the group. Leaving is never refused, as in Kafka."""
    async with GroupBroker(groups=settings_of(version)) as broker:
        refused = None if are_taken else ErrorCode.UNSUPPORTED_VERSION
        join = join_request("", instance="i")
        joined = await join_group(join, broker.context(7))
        assert joined.error_code == (refused or ErrorCode.INVALID_GROUP_ID)
        assert (joined.member_id, joined.protocol_name) == ("", None)
        assert (await join_group(join, broker.context(6))).protocol_name == ""
        sync = sync_request("g", "m", 1)
        sync.group_instance_id = "i"
        assert (await sync_group(sync, broker.context(5))).error_code == (refused or ErrorCode.UNKNOWN_MEMBER_ID)
        sync.protocol_name = None  # which is looked at later
        wrong = refused or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await sync_group(sync, broker.context(5))).error_code == wrong
        beat = heartbeat_request("g", "m", 1)
        beat.group_instance_id = "i"
        assert (await heartbeat(beat, broker.context(4))).error_code == (refused or ErrorCode.UNKNOWN_MEMBER_ID)
        commit = commit_request("g", {("orders", 0): 7, ("gone", 0): 7})
        commit.group_instance_id = "i"
        rows = [row for topic in (await offset_commit(commit, broker.context(8))).topics for row in topic.partitions]
        assert [row.error_code for row in rows] == (
            [refused, refused] if refused else [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        )
        leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m", group_instance_id="i")])
        left = await leave_group(leaving, broker.context(3))
        assert left.error_code == ErrorCode.NONE
        assert [row.error_code for row in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


async def test_dynamic_members_go_on() -> None:
    async with GroupBroker(groups=settings_of("2.2")) as broker:
        assert (await heartbeat(heartbeat_request("g", "m", 1), broker.context(4))).error_code == (
            ErrorCode.UNKNOWN_MEMBER_ID
        )
        joined = await join_group(join_request("g"), broker.context(4))
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
