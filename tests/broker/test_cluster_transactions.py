"""Transactional records on several real brokers on one simulated ensemble."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batch import iter_headers
from protocol.records.control import read_marker
from protocol.schema import Request
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.simulation.loop import SimLoop
from tests.storage.logs import batch

RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


async def produce_in_transaction(
    world: ClusterWorld, topic: str, partition: int, producer_id: int, *, epoch: int = 0, sequence: int = 0,
    transactional_id: str = "tx", version: int = 9,
) -> ErrorCode:  # fmt: skip
    """One transactional record, from whoever leads; asked again, as a client does, of one that does not."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            records = batch(
                "value", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
            )
            data = PartitionProduceData(index=partition, records=bytes(records))
            request = ProduceRequest(
                transactional_id=transactional_id, acks=-1, timeout_ms=20_000,
                topic_data=[TopicProduceData(name=topic, partition_data=[data])],
            )  # fmt: skip
            answer = await world.ask(world.leader_of(topic, partition), request, version, ProduceResponse)
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return code
            await asyncio.sleep(0.1)


async def stable_end(world: ClusterWorld, topic: str, partition: int) -> int:
    """The last stable offset of the leader."""
    async with asyncio.timeout(PATIENCE_S):
        while (leader := world.live.get(world.leader_of(topic, partition))) is None:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.1)
    found = leader.services.partitions.find(topic, partition)
    assert found is not None
    return found.last_stable_offset


async def contents(world: ClusterWorld, topic: str, partition: int) -> list[str]:
    """What the leader's log has, in order: `record`, or the type of a marker."""
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[
            FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20),
        ])],
    )  # fmt: skip
    answer = await world.ask(world.leader_of(topic, partition), request, 11, FetchResponse)
    data = bytes(answer.responses[0].partitions[0].records or b"")
    found: list[str] = []
    for position, header in iter_headers(data):
        marker = read_marker(data, position, header) if header.is_control else None
        found += ["record"] * header.records_count if marker is None else [marker.type.name]
    return found


SETTINGS = {"transaction_state_log_num_partitions": "3", "zookeeper_session_timeout_ms": "2000"}


class Producer:
    """A transactional producer, as far as these tests go: it asks whoever coordinates it, until there is an answer."""

    def __init__(self, world: ClusterWorld, name: str = "tx") -> None:
        self.world = world
        self.name = name
        self.producer_id = self.epoch = -1

    async def coordinator(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
                asked = next(iter(self.world.live))
                found = (await self.world.ask(asked, request, 6, FindCoordinatorResponse)).coordinators[0]
                if found.error_code == ErrorCode.NONE and found.node_id in self.world.live:
                    return found.node_id
                await asyncio.sleep(0.1)

    async def _ask(self, request: Request, version: int, error_of: Callable[[Any], int]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    answer: Any = await self.world.ask(
                        await self.coordinator(), request, version, type(request).response_type
                    )
                except OSError:
                    await asyncio.sleep(0.1)
                    continue
                if ErrorCode(error_of(answer)) not in RETRIED:
                    return answer
                await asyncio.sleep(0.1)

    async def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = await self._ask(request, 4, lambda answer: answer.error_code)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self, topic: str, *partitions: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = await self._ask(
            request,
            3,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        rows = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert {row.partition_error_code for row in rows} == {ErrorCode.NONE}, answer

    async def produce(self, topic: str, partition: int, *, sequence: int = 0, version: int = 9) -> ErrorCode:
        return await produce_in_transaction(
            self.world, topic, partition, self.producer_id,
            epoch=self.epoch, sequence=sequence, transactional_id=self.name, version=version,
        )  # fmt: skip

    async def end(self, *, commit: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        answer = await self._ask(request, 3, lambda answer: answer.error_code)
        assert answer.error_code == ErrorCode.NONE

    async def until(self, state: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                request = DescribeTransactionsRequest(transactional_ids=[self.name])
                answer = await self._ask(request, 0, lambda answer: answer.transaction_states[0].error_code)
                if answer.transaction_states[0].transaction_state == state:
                    return
                await asyncio.sleep(0.1)


@simulated(3)
async def test_a_transaction_over_several_brokers_is_verified_and_marked(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    await world.create_topic("t", partitions=3)
    producer = Producer(world)
    await producer.init()
    for number, commit in enumerate((True, False, True)):
        assert await producer.produce("t", 0, sequence=number) is ErrorCode.INVALID_TXN_STATE
        await producer.add("t", 0, 1, 2)
        for index in range(3):
            assert await producer.produce("t", index, sequence=number) is ErrorCode.NONE
        await producer.end(commit=commit)
        await producer.until("CompleteCommit" if commit else "CompleteAbort")
        assert [await stable_end(world, "t", index) for index in range(3)] == [2 * (number + 1)] * 3


@simulated(4)
async def test_the_next_coordinator_writes_the_markers_that_the_last_one_owed(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    producer = Producer(world)
    await producer.init()
    coordinator = await producer.coordinator()
    others = [broker_id for broker_id in world.live if broker_id != coordinator]
    await world.create_topic("t", assignment=others)
    await producer.add("t", 0)
    assert await producer.produce("t", 0) is ErrorCode.NONE
    vars(world.live[coordinator].services.transaction_markers)["_go_on"] = lambda: None  # nothing is sent
    await producer.end()
    assert await stable_end(world, "t", 0) == 0
    world.machines[coordinator].crash()
    await producer.until("CompleteCommit")
    assert await stable_end(world, "t", 0) == 2


@simulated(5)
async def test_a_transaction_ends_though_a_leader_is_killed_and_a_topic_is_deleted(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    producer = Producer(world)
    await producer.init()
    coordinator = await producer.coordinator()
    killed, other = [broker_id for broker_id in world.live if broker_id != coordinator]
    await world.create_topic("t", assignment=(killed, other))
    await world.create_topic("gone", assignment=(other, coordinator))
    await producer.add("t", 0)
    await producer.add("gone", 0)
    assert await producer.produce("t", 0) is await producer.produce("gone", 0) is ErrorCode.NONE
    request = DeleteTopicsRequest(topic_names=["gone"], timeout_ms=30_000)
    answer = await world.ask(world.controller_id, request, 5, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    world.machines[killed].crash()
    await producer.end(commit=False)
    await producer.until("CompleteAbort")
    assert world.leader_of("t") == other and await stable_end(world, "t", 0) == 2


@simulated(6)
async def test_without_a_coordinator_a_producer_is_to_send_again(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    await world.create_topic("t", partitions=1)
    assert await produce_in_transaction(world, "t", 0, 4711) is ErrorCode.NOT_ENOUGH_REPLICAS
    producer = Producer(world)
    await producer.init()
    assert await producer.produce("t", 0, version=11) is ErrorCode.TRANSACTION_ABORTABLE


@simulated(7)
async def test_a_new_coordinator_aborts_a_transaction_that_times_out_and_fences_its_producer(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS, transaction_abort_timed_out_transaction_cleanup_interval_ms="1000")
    await world.start()
    await world.create_topic("t", partitions=1)
    zombie, successor = Producer(world), Producer(world)
    await zombie.init()
    await zombie.add("t", 0)
    assert await zombie.produce("t", 0) is ErrorCode.NONE
    world.machines[await zombie.coordinator()].crash()
    await zombie.until("Ongoing")
    await asyncio.sleep(61)
    await zombie.until("CompleteAbort")
    assert await stable_end(world, "t", 0) == 2
    with pytest.raises(AssertionError, match=str(int(ErrorCode.PRODUCER_FENCED))):
        await zombie.end()
    await successor.init()
    assert (successor.producer_id, successor.epoch) == (zombie.producer_id, 2)


@simulated(8)
async def test_transactions_go_on_though_each_of_their_coordinators_is_killed(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    await world.create_topic("t", partitions=1)
    producer = Producer(world)
    await producer.init()
    for number in range(3):
        await producer.add("t", 0)
        assert await producer.produce("t", 0, sequence=number) is ErrorCode.NONE
        first = await producer.coordinator()
        world.machines[first].crash()
        await producer.end(commit=number != 1)
        await producer.until("CompleteAbort" if number == 1 else "CompleteCommit")
        await world.start(first)
    # The successor of a coordinator writes the markers again that its predecessor may have written.
    found = await contents(world, "t", 0)
    assert [each for each, _ in itertools.groupby(found)] == ["record", "COMMIT", "record", "ABORT", "record", "COMMIT"]
    assert found.count("record") == 3
    assert await stable_end(world, "t", 0) == len(found)
