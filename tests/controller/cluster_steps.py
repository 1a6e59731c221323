"""Steps of scenarios with several brokers: what is asked of the controller, and what it told whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from metadata.admin.topic_requests import NewTopic
from metadata.store import znodes
from metadata.store.znodes import PartitionState, ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.topic_partition import TopicPartition
from tests.async_tests import played_by
from tests.controller.harness import PATIENCE_MS, Cluster, Member, cluster

KEY = ("t", 0)


def together(scenario: Callable[[Cluster], Awaitable[None]], *broker_ids: int, **options: object) -> None:
    async def run() -> None:
        async with cluster(*broker_ids, **options) as made:
            await scenario(made)

    asyncio.run(run())


def brokers(*broker_ids: int, **options: object) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A test of a cluster of these brokers, which is its first parameter."""
    return played_by(lambda program: together(program, *broker_ids, **options))


async def create(made: Cluster, *replicas: Sequence[int], topic: str = "t") -> None:
    assignment = dict(enumerate(replicas))
    created = await made.active.topic_admin.create([NewTopic(topic, assignment=assignment)], PATIENCE_MS)
    assert created[topic].outcome.code is ErrorCode.NONE, created[topic].outcome
    await made.active.quiet()


async def state(made: Cluster, key: TopicPartition = KEY) -> PartitionState:
    data, stat = await made.ensemble_store.get(znodes.state_path(*key))
    return PartitionState.decode(data, stat.version)


async def assignment(made: Cluster, key: TopicPartition = KEY) -> ReplicaAssignment:
    data, _ = await made.ensemble_store.get(znodes.topic_path(key[0]))
    return TopicRegistration.decode(key[0], data).assignments[key[1]]


async def alter_isr(
    made: Cluster, isr: Sequence[int], key: TopicPartition = KEY, *, version: int = 3, by: int | None = None
) -> AlterPartitionResponse:
    """As the leader would ask, knowing everybody."""
    now = await state(made, key)
    leader = made.members[now.leader if by is None else by]
    row = RequestPartitionData(
        partition_index=key[1],
        leader_epoch=now.leader_epoch,
        new_isr=list(isr),
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=made.epoch(each)) for each in isr],
        partition_epoch=now.partition_epoch,
    )
    data, _ = await made.ensemble_store.get(znodes.topic_path(key[0]))
    topic_id = TopicRegistration.decode(key[0], data).topic_id
    topic = RequestTopicData(topic_name=key[0], topic_id=topic_id, partitions=[row])
    request = AlterPartitionRequest(broker_id=leader.broker_id, broker_epoch=leader.epoch, topics=[topic])
    return await made.active.controller.alter_partition(request, version)


def code_of(response: AlterPartitionResponse) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not await condition():  # noqa: ASYNC110 (the store tells nobody)
            await asyncio.sleep(0)


async def until_true(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await until(holds)


def told(member: Member, key: TopicPartition = KEY) -> list[LeaderAndIsrPartitionState]:
    return [
        row
        for request in member.broker.received(LeaderAndIsrRequest)
        for topic in request.topic_states
        for row in topic.partition_states
        if (topic.topic_name, row.partition_index) == key
    ]


def stopped(member: Member, key: TopicPartition = KEY) -> list[bool]:
    """For each order to stop the replica: was it to be deleted?"""
    return [
        row.delete_partition
        for request in member.broker.received(StopReplicaRequest)
        for topic in request.topic_states
        for row in topic.partition_states
        if (topic.topic_name, row.partition_index) == key
    ]
