"""LeaveGroup: one member below version 3, several from there on."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.leave_group import leave_group
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.handlers.group_world import GroupBroker


@pytest.mark.parametrize("version", range(6))
def test_the_error_stands_where_the_version_has_it(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            if version < 3:
                request = LeaveGroupRequest(group_id="g", member_id="zz")
            else:
                request = LeaveGroupRequest(
                    group_id="g", members=[MemberIdentity(member_id="zz"), MemberIdentity(member_id="")]
                )
            response = await leave_group(request, broker.context(version))
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            assert response.error_code == (unknown if version < 3 else ErrorCode.NONE)
            assert [row.error_code for row in response.members] == ([] if version < 3 else [unknown, unknown])
            response.encode(version)

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(6))
def test_an_error_of_the_group_is_the_answers(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await leave_group(LeaveGroupRequest(group_id=""), broker.context(version))
            assert (response.error_code, response.members) == (ErrorCode.INVALID_GROUP_ID, [])

    asyncio.run(scenario())
