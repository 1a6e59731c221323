"""Heartbeat answers in every version."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.heartbeat import heartbeat
from protocol.errors import ErrorCode
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import heartbeat_request


@pytest.mark.parametrize("version", range(5))
def test_an_unknown_member_is_told_so(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await heartbeat(heartbeat_request("g", "m", 1), broker.context(version))
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            response.encode(version)
            response = await heartbeat(heartbeat_request("", "m", 1), broker.context(version))
            assert response.error_code == ErrorCode.INVALID_GROUP_ID

    asyncio.run(scenario())
