"""Beyond its limit a shard serves the groups that it has, and creates no others."""

from __future__ import annotations

import asyncio

from coordinator.group.settings import GroupSettings
from coordinator.group_coordinator import GroupCoordinatorSettings
from protocol.errors import ErrorCode
from tests.coordinator.requests import commit_request, join_request, transactional_commit_request
from tests.coordinator.world import World

PLACE = ("t", 0)
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_no_group_is_created_beyond_the_limit() -> None:
    async with World(GroupCoordinatorSettings(groups=GroupSettings(groups_max=2)), partitions_count=1) as world:
        await world.lead()
        for group_id, expected in (("a", ErrorCode.NONE), ("b", ErrorCode.NONE), ("c", FULL), ("a", ErrorCode.NONE)):
            assert await _commit(world, group_id) == expected, group_id
        joined = await world.groups.join_group(join_request("c"), 3, "client", "/h")
        assert joined.error_code == FULL
        response = await _in_transaction(world, "c")
        assert response == FULL


async def _commit(world: World, group_id: str) -> int:
    task = asyncio.create_task(world.groups.commit_offsets(commit_request(group_id, {PLACE: 1})))
    await world.settle()
    world.log.commit_all()
    await world.settle()
    response = await task
    return response.topics[0].partitions[0].error_code


async def _in_transaction(world: World, group_id: str) -> int:
    request = transactional_commit_request(group_id, {PLACE: 1})
    response = await world.groups.commit_offsets_in_transaction(request, 3)
    return response.topics[0].partitions[0].error_code
