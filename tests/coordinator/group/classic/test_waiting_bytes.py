"""The memory of requests that wait for their groups, as the coordinator counts and keeps it. What is refused when, step by
step: `tests/scenarios/groups/waiting_memory.txt`."""

from __future__ import annotations

import asyncio
import logging

import pytest

from coordinator.group.classic.waiting_bytes import MEMBER_BYTES, PROTOCOL_BYTES, WaitingBytes, size_of
from coordinator.group.settings import GroupSettings
from coordinator.group_coordinator import GroupCoordinatorSettings
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.coordinator.requests import heartbeat_request, join_request, sync_request
from tests.coordinator.world import World

METADATA = b"m" * 1_000_000
MEMBER = size_of((("range", METADATA),))


def world_of(limit_bytes: int) -> World:
    groups = GroupSettings(waiting_max_bytes=limit_bytes)
    return World(GroupCoordinatorSettings(groups=groups))


def large_join(group_id: str = "g", member_id: str = "") -> JoinGroupRequest:
    request = join_request(group_id, member_id)
    request.protocols = [JoinGroupRequestProtocol(name="range", metadata=METADATA)]
    request.reason = "r" * 1_000
    return request


async def join(world: World, request: JoinGroupRequest) -> asyncio.Task[JoinGroupResponse]:
    task: asyncio.Task[JoinGroupResponse] = asyncio.create_task(world.groups.join_group(request, 3, "a", "/h"))
    await world.settle()
    return task


def test_what_a_member_counts_with() -> None:
    assert size_of(()) == MEMBER_BYTES
    assert size_of((("range", b"12345"), ("sticky", b""))) == MEMBER_BYTES + 2 * PROTOCOL_BYTES + 5 + 6 + 5


def test_room() -> None:
    waiting = WaitingBytes(100)
    assert waiting.has_room(1_000), "it is alone"
    waiting.change(60)
    assert (waiting.has_room(40), waiting.has_room(41)) == (True, False)
    waiting.change(200)  # who must be admitted
    assert not waiting.has_room(0)
    waiting.change(-260)
    assert waiting.has_room(1_000)
    with pytest.raises(AssertionError):
        waiting.change(-1)


def test_refusals_are_told_once_until_half_of_the_room_is_free() -> None:
    waiting = WaitingBytes(100)
    waiting.change(90)
    assert [waiting.begins_to_refuse() for _ in range(3)] == [True, False, False]
    waiting.change(-30)
    assert not waiting.begins_to_refuse()
    waiting.change(-10)
    assert waiting.begins_to_refuse()


async def test_a_request_that_waits_keeps_nothing_but_what_its_member_has() -> None:
    async with world_of(3 * MEMBER) as world:
        await world.lead()
        request = large_join()
        task = await join(world, request)
        assert world.groups.waiting_bytes == MEMBER
        assert (request.protocols, request.reason) == ([], None)
        await world.advance(6_000)
        assert task.done()
        assert world.groups.waiting_bytes == 0


def test_the_groups_of_all_partitions_share_the_room(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with world_of(4 * MEMBER) as world:
            await world.lead()
            tasks = [await join(world, large_join(f"group-{number}")) for number in range(8)]
            assert world.groups.waiting_bytes == 4 * MEMBER
            refused = [task.result() for task in tasks if task.done()]
            assert [response.error_code for response in refused] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 4
            await world.advance(6_000)
            assert world.groups.waiting_bytes == 0
            assert all(task.done() for task in tasks)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert len([line for line in caplog.messages if "barnabas.group.waiting.max.bytes" in line]) == 1


async def test_a_member_that_asks_again_on_another_connection_counts_once() -> None:
    async with world_of(2 * MEMBER) as world:
        await world.lead()
        first = await join(world, large_join())
        await world.advance(6_000)
        member_id = first.result().member_id
        other = await join(world, large_join())  # the group waits for the first one
        assert world.groups.waiting_bytes == MEMBER
        lost = [await join(world, large_join(member_id=member_id)) for _ in range(1)]
        assert all(task.done() for task in (*lost, other)), "all have joined"
        assert world.groups.waiting_bytes == 0
        again = await join(world, large_join("h"))
        doubles = [await join(world, large_join("h")) for _ in range(3)]
        assert not again.done()
        assert world.groups.waiting_bytes == 2 * MEMBER
        assert sum(task.done() for task in doubles) == 2, "without an id they are other members"


async def test_known_members_are_admitted_past_the_limit_and_heartbeats_are_answered() -> None:
    async with world_of(2 * MEMBER) as world:
        await world.lead()
        members = [await join(world, large_join()) for _ in range(2)]
        await world.advance(6_000)
        ids = [member.result().member_id for member in members]
        filling = [await join(world, large_join(name)) for name in ("x", "y")]
        assert world.groups.waiting_bytes == 2 * MEMBER
        rejoined = [await join(world, large_join(member_id=ids[1])) for _ in range(1)]
        assert rejoined[0].done(), "nothing has changed: it is told its generation again"
        changed = large_join(member_id=ids[1])
        changed.protocols[0].metadata = METADATA + b"more"
        waiting = await join(world, changed)
        assert not waiting.done()
        assert world.groups.waiting_bytes == 3 * MEMBER + 4
        assert world.groups.heartbeat(heartbeat_request("g", ids[0], 1)) is ErrorCode.REBALANCE_IN_PROGRESS
        changed = large_join(member_id=ids[1])
        changed.protocols[0].metadata = METADATA + b"still more"
        repeated = await join(world, changed)
        assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.groups.waiting_bytes == 3 * MEMBER + len(b"still more")
        leader = await join(world, large_join(member_id=ids[0]))
        assert leader.done() and repeated.done()
        assert world.groups.waiting_bytes == 2 * MEMBER
        await world.advance(6_000)
        assert all(task.done() for task in filling)
        assert world.groups.waiting_bytes == 0


async def test_assignments_count_until_they_are_stored_and_nothing_else_of_a_sync() -> None:
    async with world_of(2 * MEMBER) as world:
        await world.lead()
        members = [await join(world, join_request()) for _ in range(2)]
        await world.advance(6_000)
        leader, follower = (member.result().member_id for member in members)
        world.log.is_holding = True
        requests = [
            sync_request("g", follower, 1, {follower: METADATA}),
            sync_request("g", leader, 1, {leader: METADATA}),
            sync_request("g", leader, 1, {leader: METADATA}),  # again, while the first one is on its way
        ]
        tasks = []
        for request, counted in zip(requests, (False, True, True), strict=True):
            tasks.append(asyncio.create_task(world.groups.sync_group(request)))
            await world.settle()
            assert request.assignments == []
            assert (len(METADATA) < world.groups.waiting_bytes < len(METADATA) + 10_000) is counted
        world.log.commit_all()
        await world.settle()
        assert all(task.done() for task in tasks)
        assert world.groups.waiting_bytes == 0


@pytest.mark.parametrize("end", ["resignation", "close", "deadline"])
async def test_nothing_is_left_when_a_group_goes(end: str) -> None:
    async with world_of(10 * MEMBER) as world:
        await world.lead(leader_epoch=1)
        member = await join(world, join_request())
        await world.advance(6_000)
        member_id = member.result().member_id
        world.log.is_holding = True
        sync = asyncio.create_task(world.groups.sync_group(sync_request("g", member_id, 1, {member_id: METADATA})))
        join_of_another = await join(world, large_join("h"))
        assert world.groups.waiting_bytes > 2 * len(METADATA)
        if end == "resignation":
            for partition in range(4):
                world.groups.runtime.on_resignation(partition, 2)
        elif end == "close":
            world.groups.close()
        else:
            world.log.is_holding = False
            world.log.commit_all()
            await world.advance(20 * 60_000)
        await world.settle()
        assert sync.done() and join_of_another.done()
        assert world.groups.waiting_bytes == 0
