"""TxnOffsetCommit while the groups are loaded."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.transactions.txn_offset_commit import txn_offset_commit
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import transactional_commit_request

ORDERS_0 = ("orders", 0)


def errors(response: TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    return {(topic.name, row.partition_index): row.error_code for topic in response.topics for row in topic.partitions}


@pytest.mark.parametrize("version", range(5))
async def test_old_clients_do_not_get_the_error_of_a_load(version: int) -> None:
    async with GroupBroker() as broker:
        broker.world.groups.runtime.on_resignation(broker.world.groups.partition_for("g") or 0)
        broker.world.log.gate = asyncio.Event()
        await broker.world.lead(1)
        response = await txn_offset_commit(transactional_commit_request("g", {ORDERS_0: 5}), broker.context(version))
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        expected = loading if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert errors(response) == {ORDERS_0: expected}
        broker.world.log.gate.set()
