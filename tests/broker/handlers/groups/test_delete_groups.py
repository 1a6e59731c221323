"""DeleteGroups: each group once."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.delete_groups import delete_groups
from broker.handlers.groups.offset_commit import offset_commit
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request


@pytest.mark.parametrize("version", range(3))
def test_a_group_named_twice_is_answered_once(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {("orders", 0): 5}), broker.context(9))
            request = DeleteGroupsRequest(groups_names=["g", "none", "g", ""])
            response = await delete_groups(request, broker.context(version))
            assert [(row.group_id, row.error_code) for row in response.results] == [
                ("g", ErrorCode.NONE),
                ("none", ErrorCode.GROUP_ID_NOT_FOUND),
                ("", ErrorCode.GROUP_ID_NOT_FOUND),
            ]
            response.encode(version)

    asyncio.run(scenario())
