"""Offsets of transactions on several real brokers: transaction and group have different coordinators, which move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.runtime.partitioner import partition_for
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.topic_partition import TopicPartition
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.coordinator.requests import fetch_group, transactional_commit_request
from tests.simulation.loop import SimLoop

GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
PARTITIONS = 3
ORDERS: TopicPartition = ("orders", 0)
RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


class TransactionalClient:
    """A producer that commits the offsets of group "g"; asks again, as clients do, while coordinators move."""

    def __init__(self, world: ClusterWorld, transactional_id: str) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1

    @property
    def group_coordinator(self) -> int:
        return self.world.leader_of(GROUPS, partition_for("g", PARTITIONS))

    @property
    def coordinator(self) -> int:
        return self.world.leader_of(TRANSACTIONS, partition_for(self.transactional_id, PARTITIONS))

    async def retried(self, ask: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    error = await ask()
                except (OSError, KeyError):  # the broker is gone, and its successor is not elected
                    error = ErrorCode.NOT_COORDINATOR
                if error not in RETRIED:
                    return error
                await asyncio.sleep(0.1)

    async def start(self) -> None:
        for key, key_type in (("g", 0), (self.transactional_id, 1)):

            async def find(key: str = key, key_type: int = key_type) -> ErrorCode:
                request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
                found = await self.world.ask(next(iter(self.world.live)), request, 4, FindCoordinatorResponse)
                return ErrorCode(found.coordinators[0].error_code)

            assert await self.retried(find) is ErrorCode.NONE

        async def init() -> ErrorCode:
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
            answer = await self.world.ask(self.coordinator, request, 4, InitProducerIdResponse)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return ErrorCode(answer.error_code)

        assert await self.retried(init) is ErrorCode.NONE

    async def add_group(self) -> None:
        async def add() -> ErrorCode:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
                group_id="g",
            )  # fmt: skip
            return ErrorCode((await self.world.ask(self.coordinator, request, 3, AddOffsetsToTxnResponse)).error_code)

        assert await self.retried(add) is ErrorCode.NONE

    async def commit(self, offset: int) -> ErrorCode:
        async def commit() -> ErrorCode:
            request = transactional_commit_request(
                "g", {ORDERS: offset}, producer_id=self.producer_id, producer_epoch=self.epoch
            )
            request.transactional_id = self.transactional_id
            answer = await self.world.ask(self.group_coordinator, request, 4, TxnOffsetCommitResponse)
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        return await self.retried(commit)

    async def end(self, *, committed: bool) -> None:
        async def end() -> ErrorCode:
            request = EndTxnRequest(
                transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
                committed=committed,
            )  # fmt: skip
            return ErrorCode((await self.world.ask(self.coordinator, request, 3, EndTxnResponse)).error_code)

        assert await self.retried(end) is ErrorCode.NONE

    async def fetched(self) -> int | ErrorCode:
        """The stable offset, or why there is none."""
        found: list[Any] = []

        async def fetch() -> ErrorCode:
            request = OffsetFetchRequest(groups=[fetch_group("g", [ORDERS])], require_stable=True)
            answer = await self.world.ask(self.group_coordinator, request, 9, OffsetFetchResponse)
            found[:] = [row for topic in answer.groups[0].topics for row in topic.partitions]
            return ErrorCode(answer.groups[0].error_code)

        assert await self.retried(fetch) is ErrorCode.NONE
        [row] = found
        error = ErrorCode(row.error_code)
        return int(row.committed_offset) if error is ErrorCode.NONE else error

    async def settled(self) -> int:
        """The stable offset, once the markers have arrived."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.fetched()) is ErrorCode.UNSTABLE_OFFSET_COMMIT:  # noqa: ASYNC110  virtual time
                await asyncio.sleep(0.1)
        assert not isinstance(found, ErrorCode)
        return found


async def cluster(loop: SimLoop) -> ClusterWorld:
    world = ClusterWorld(
        loop, transaction_state_log_num_partitions=str(PARTITIONS), transaction_state_log_replication_factor="3",
        transaction_state_log_min_isr="1", offsets_topic_replication_factor="3",
    )  # fmt: skip
    await world.start()
    await world.create_topic("orders", partitions=1)
    return world


async def client_with_coordinators_apart(world: ClusterWorld) -> TransactionalClient:
    """A producer whose transactions are coordinated by another broker than the group."""
    for number in range(20):
        client = TransactionalClient(world, f"tx{number}")
        if number == 0:
            await client.start()
        if client.coordinator != client.group_coordinator:
            await client.start()
            return client
    raise AssertionError("every transactional id has the group's coordinator")


@pytest.mark.parametrize("committed", [True, False])
@simulated(1)
async def test_the_coordinator_of_the_transaction_is_another_broker(loop: SimLoop, committed: bool) -> None:
    world = await cluster(loop)
    client = await client_with_coordinators_apart(world)
    assert await client.commit(4) is ErrorCode.TRANSACTION_ABORTABLE
    await client.add_group()
    assert await client.commit(5) is ErrorCode.NONE
    assert await client.fetched() is ErrorCode.UNSTABLE_OFFSET_COMMIT
    await client.end(committed=committed)
    assert await client.settled() == (5 if committed else -1)
    assert await client.commit(6) is ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("committed", [True, False])
@simulated(1)
async def test_the_group_moves_while_its_offsets_are_pending(loop: SimLoop, committed: bool) -> None:
    world = await cluster(loop)
    client = await client_with_coordinators_apart(world)
    await client.add_group()
    assert await client.commit(5) is ErrorCode.NONE
    lost = client.group_coordinator
    world.machines[lost].crash()
    await world.until(lambda: client.group_coordinator not in (lost, -1))
    assert await client.fetched() is ErrorCode.UNSTABLE_OFFSET_COMMIT
    await client.end(committed=committed)
    assert await client.settled() == (5 if committed else -1)
    await client.add_group()
    assert await client.commit(7) is ErrorCode.NONE
    await client.end(committed=True)
    assert await client.settled() == 7


@simulated(1)
async def test_the_coordinator_of_the_transaction_moves_before_its_markers_are_written(loop: SimLoop) -> None:
    world = await cluster(loop)
    client = await client_with_coordinators_apart(world)
    await client.add_group()
    assert await client.commit(5) is ErrorCode.NONE
    lost = client.coordinator
    await client.end(committed=True)
    world.machines[lost].crash()
    await world.until(lambda: client.coordinator not in (lost, -1))
    assert await client.settled() == 5
