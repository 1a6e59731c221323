"""AddOffsetsToTxn adds the partition that holds the group."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.runtime.partitioner import partition_for
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import TransactionalClient


@pytest.mark.parametrize("version", range(5))
def test_the_groups_partition_becomes_part_of_the_transaction(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            assert await client.add_offsets("g", version=version) is ErrorCode.NONE
            [topic] = broker.transactions.coordinator.describe("t").topics
            assert (topic.topic, topic.partitions) == (GROUP_METADATA_TOPIC, [partition_for("g", 4)])
            client.epoch = 5
            fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
            assert await client.add_offsets("g", version=version) is fenced

    asyncio.run(scenario())


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
