"""TxnOffsetCommit: partitions that do not exist, and what the coordinator does not accept, by version."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.offset_fetch import offset_fetch
from broker.handlers.transactions.txn_offset_commit import txn_offset_commit
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import fetch_group, transactional_commit_request

ORDERS_0 = ("orders", 0)


def errors(response: TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    return {(topic.name, row.partition_index): row.error_code for topic in response.topics for row in topic.partitions}


async def fetched(broker: GroupBroker, *, require_stable: bool) -> tuple[int, int]:
    request = OffsetFetchRequest(groups=[fetch_group("g", [ORDERS_0])], require_stable=require_stable)
    response = await offset_fetch(request, broker.context(9))
    (row,) = response.groups[0].topics[0].partitions
    return row.committed_offset, row.error_code


@pytest.mark.parametrize("version", range(5))
def test_partitions_that_do_not_exist_cost_only_themselves(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            request = transactional_commit_request("g", {ORDERS_0: 5, ("orders", 9): 5, ("unknown", 0): 5})
            response = await txn_offset_commit(request, broker.context(version))
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert errors(response) == {ORDERS_0: ErrorCode.NONE, ("orders", 9): unknown, ("unknown", 0): unknown}
            response.encode(version)

    asyncio.run(scenario())


def test_offsets_are_unstable_until_the_transaction_ends() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await txn_offset_commit(transactional_commit_request("g", {ORDERS_0: 5}), broker.context(4))
            assert await fetched(broker, require_stable=False) == (-1, ErrorCode.NONE)
            assert await fetched(broker, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            partition = broker.world.groups.partition_for("g")
            assert partition is not None
            broker.world.groups.on_transaction_ended(partition, 7, committed=True)
            assert await fetched(broker, require_stable=True) == (5, ErrorCode.NONE)

    asyncio.run(scenario())


def test_without_a_partition_that_exists_the_coordinator_is_not_asked() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.world.groups.close()
            request = transactional_commit_request("g", {("unknown", 0): 5})
            response = await txn_offset_commit(request, broker.context(4))
            assert errors(response) == {("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            response = await txn_offset_commit(transactional_commit_request("g", {ORDERS_0: 5}), broker.context(4))
            assert errors(response) == {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    asyncio.run(scenario())


def test_a_partition_named_twice_gets_one_row_and_the_last_offset_counts() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            request = transactional_commit_request("g", {ORDERS_0: 5})
            request.topics += transactional_commit_request("g", {ORDERS_0: 6}).topics
            response = await txn_offset_commit(request, broker.context(4))
            assert [[row.error_code for row in topic.partitions] for topic in response.topics] == [[ErrorCode.NONE]]
            partition = broker.world.groups.partition_for("g")
            assert partition is not None
            broker.world.groups.on_transaction_ended(partition, 7, committed=True)
            assert await fetched(broker, require_stable=True) == (6, ErrorCode.NONE)

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(5))
def test_old_clients_do_not_get_the_error_of_a_load(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.world.groups.runtime.on_resignation(broker.world.groups.partition_for("g") or 0)
            broker.world.log.gate = asyncio.Event()
            await broker.world.lead(1)
            response = await txn_offset_commit(
                transactional_commit_request("g", {ORDERS_0: 5}), broker.context(version)
            )
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            expected = loading if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert errors(response) == {ORDERS_0: expected}
            broker.world.log.gate.set()

    asyncio.run(scenario())


def test_the_group_needs_a_name() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await txn_offset_commit(transactional_commit_request("", {ORDERS_0: 5}), broker.context(4))
            assert errors(response) == {ORDERS_0: ErrorCode.INVALID_GROUP_ID}

    asyncio.run(scenario())
