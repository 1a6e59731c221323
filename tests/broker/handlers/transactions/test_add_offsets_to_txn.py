"""AddOffsetsToTxn before the topic that holds the groups exists."""

from __future__ import annotations

import asyncio

from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import TransactionalClient


def test_the_topic_of_the_groups_is_made_when_it_is_not_known() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            broker.world.partitions_count = None
            broker.world.groups.runtime._partitions_count = None
            assert await client.add_offsets() is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert broker.topics.wanted == [GROUP_METADATA_TOPIC]

    asyncio.run(scenario())
