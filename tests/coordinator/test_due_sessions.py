"""Sessions that have run out before the loop came to their timers."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from tests.coordinator.requests import delete_offsets_request, join_request, sync_request
from tests.coordinator.world import World

ORDERS_0 = ("orders", 0)


async def static_member_alone(world: World) -> None:
    """A group of one that stays away from now on, without a LeaveGroup."""
    join = asyncio.create_task(world.groups.join_group(join_request(instance="i1"), 5, "a", "/h"))
    await world.settle()
    await world.advance(6_000)
    joined: JoinGroupResponse = join.result()
    await world.groups.sync_group(sync_request("g", joined.member_id, 1, {joined.member_id: b"x"}))


async def test_a_session_that_has_run_out_keeps_no_group_from_being_deleted() -> None:
    async with World() as world:
        await world.lead()
        await static_member_alone(world)
        world.clock.now_ms += 9_999  # and the loop has not come to its timers
        (result,) = await world.groups.delete_groups(["g"])
        assert result.error_code == ErrorCode.NON_EMPTY_GROUP
        world.clock.now_ms += 1
        (result,) = await world.groups.delete_groups(["g"])
        assert result.error_code == ErrorCode.NONE
        assert (await world.groups.list_groups([], [])) == (ErrorCode.NONE, [])


async def test_a_session_that_has_run_out_keeps_no_offset_from_being_deleted() -> None:
    async with World() as world:
        await world.lead()
        await static_member_alone(world)
        request = delete_offsets_request("g", [ORDERS_0])
        refused = (await world.groups.delete_offsets(request)).topics[0].partitions[0]
        assert refused.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        world.clock.now_ms += 10_000
        deleted = (await world.groups.delete_offsets(request)).topics[0].partitions[0]
        assert deleted.error_code == ErrorCode.NONE
