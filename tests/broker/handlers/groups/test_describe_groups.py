"""DescribeGroups: a row for each, errors in the rows, operations when asked for."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.describe_groups import describe_groups
from broker.handlers.groups.offset_commit import offset_commit
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request

NOT_ASKED = -(2**31)
READ_DELETE_DESCRIBE = 328  # as Apache Kafka 3.9.1 without an authorizer


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_is_not_there_is_dead_without_an_error(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {("orders", 0): 5}), broker.context(9))
            request = DescribeGroupsRequest(groups=["g", "none", ""], include_authorized_operations=version >= 3)
            response = await describe_groups(request, broker.context(version))
            assert [(group.group_id, group.group_state, group.error_code) for group in response.groups] == [
                ("g", "Empty", ErrorCode.NONE),
                ("none", "Dead", ErrorCode.NONE),
                ("", "Dead", ErrorCode.NONE),
            ]
            expected = READ_DELETE_DESCRIBE if version >= 3 else NOT_ASKED
            assert {group.authorized_operations for group in response.groups} == {expected}
            response.encode(version)

    asyncio.run(scenario())


def test_a_group_of_another_coordinator_has_no_operations() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for partition in range(4):
                broker.world.groups.runtime.on_resignation(partition)
            request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
            (group,) = (await describe_groups(request, broker.context(5))).groups
            assert (group.error_code, group.group_state) == (ErrorCode.NOT_COORDINATOR, "")
            assert group.authorized_operations == NOT_ASKED

    asyncio.run(scenario())
