"""SyncGroup: the protocol is required from version 5."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.sync_group import sync_group
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest
from tests.broker.handlers.group_world import GroupBroker


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_the_protocol_is_required_from_version_5(version: int, missing: str) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            request = SyncGroupRequest(
                group_id="g",
                generation_id=1,
                member_id="m",
                protocol_type="consumer",
                protocol_name="range",
                assignments=[],
            )
            setattr(request, missing, None)
            response = await sync_group(request, broker.context(version))
            wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else ErrorCode.UNKNOWN_MEMBER_ID
            assert (response.error_code, response.assignment) == (wrong, b"")
            response.encode(version)

    asyncio.run(scenario())
