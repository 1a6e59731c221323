"""FindCoordinator when nobody coordinates."""

from __future__ import annotations

import pytest

from broker.handlers.groups.find_coordinator import find_coordinator
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.handlers.group_world import BROKER_ID, GroupBroker


@pytest.mark.parametrize("leaders", [[-1] * 4, [99] * 4, [BROKER_ID]], ids=["no leader", "dead leader", "no partition"])
async def test_a_partition_without_a_living_leader_is_not_available(leaders: list[int]) -> None:
    async with GroupBroker() as broker:
        broker.publish({GROUP_METADATA_TOPIC: leaders})
        response = await find_coordinator(FindCoordinatorRequest(key="g", key_type=0), broker.context(3))
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.topics.wanted == []
