"""A share group in several real brokers on one simulated ensemble: its coordinator crashes, its topic is deleted and made
again, an administrator lets it begin elsewhere and deletes it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from metadata.store import znodes
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlteredPartition,
    AlteredTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestedGroup,
    RequestedTopic,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from protocol.primitives import ZERO_UUID
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

GROUP, TOPIC = "workers", "orders"
SETTINGS = {"barnabas_initial_features": "newest", "share_coordinator_state_topic_num_partitions": "3"}
MOVING = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@dataclass
class Member:
    """Finds its coordinator and does what it is told, until it has as many partitions as it waits for."""

    world: ClusterWorld
    member_id: str
    epoch: int = 0
    assigned: dict[bytes, set[int]] = field(default_factory=dict)

    async def beat(self, epoch: int | None = None) -> ErrorCode:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=None if self.epoch else [TOPIC],
        )
        broker_id = await coordinator_of(self.world)
        response = await self.world.ask(broker_id, request, 1, ShareGroupHeartbeatResponse)
        if not response.error_code:
            self.epoch = max(response.member_epoch, 0)
            if response.assignment is not None:
                rows = response.assignment.topic_partitions
                self.assigned = {row.topic_id: set(row.partitions) for row in rows}
        return ErrorCode(response.error_code)

    async def until(self, partitions: set[int]) -> None:
        for _ in range(100):
            error = await self.beat()
            assert error is ErrorCode.NONE or error in MOVING, error
            if self.assigned.get(topic_id_of(self.world)) == partitions:
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"{self.member_id} has {self.assigned}")


def topic_id_of(world: ClusterWorld) -> bytes:
    return next(iter(world.live.values())).metadata.image.topic_id(TOPIC)


async def coordinator_of(world: ClusterWorld) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    while True:
        for broker_id in world.live:
            found = (await world.ask(broker_id, request, 6, FindCoordinatorResponse)).coordinators[0]
            if found.error_code == ErrorCode.NONE and found.node_id in world.live:
                return found.node_id
        await asyncio.sleep(0.5)


async def starts(world: ClusterWorld) -> dict[int, tuple[int, int]]:
    """Where the partitions begin, and their lag."""
    request = DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id=GROUP, topics=None)])
    answer = await world.ask(await coordinator_of(world), request, 1, DescribeShareGroupOffsetsResponse)
    assert answer.groups[0].error_code == 0, answer.groups[0]
    return {
        row.partition_index: (row.start_offset, row.lag)
        for topic in answer.groups[0].topics
        for row in topic.partitions
    }


async def refusal_of(world: ClusterWorld, broker_id: int) -> ErrorCode:
    """What a broker answers who is asked where partitions begin."""
    topic = RequestedTopic(topic_name=TOPIC, partitions=[0])
    request = DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id=GROUP, topics=[topic])])
    answer = await world.ask(broker_id, request, 1, DescribeShareGroupOffsetsResponse)
    return ErrorCode(answer.groups[0].error_code)


async def begin_at(world: ClusterWorld, offset: int) -> ErrorCode:
    row = AlteredPartition(partition_index=0, start_offset=offset)
    request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[AlteredTopic(topic_name=TOPIC, partitions=[row])])
    answer = await world.ask(await coordinator_of(world), request, 0, AlterShareGroupOffsetsResponse)
    return ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code)


@simulated(11)
async def test_a_share_group_outlives_its_coordinator_and_its_topic(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    await world.create_topic(TOPIC, partitions=2)
    for value in (b"a", b"b", b"c"):
        await world.produce(TOPIC, value)
    one, two = Member(world, "one"), Member(world, "two")
    await one.until({0, 1})
    await two.beat()
    crashed = await coordinator_of(world)
    for broker_id in world.live:
        is_coordinator = broker_id == crashed
        assert await refusal_of(world, broker_id) is (ErrorCode.NONE if is_coordinator else ErrorCode.NOT_COORDINATOR)
    world.machines[crashed].crash()
    for _ in range(20):
        await one.beat()
        await two.beat()
        await asyncio.sleep(0.5)
    shares = [member.assigned[topic_id_of(world)] for member in (one, two)]
    assert sorted(map(sorted, shares)) == [[0], [1]]
    assert await begin_at(world, 1) is ErrorCode.NON_EMPTY_GROUP
    assert await two.beat(epoch=-1) is ErrorCode.NONE
    await one.until({0, 1})

    before = topic_id_of(world)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC, topic_id=ZERO_UUID)], timeout_ms=30_000)
    await world.start(crashed)
    await world.until(lambda: len(world.live) == 3)
    await world.ask(world.controller_id, deletion, 6, DeleteTopicsResponse)
    await world.until(lambda: all(TOPIC not in broker.metadata.image.topics for broker in world.live.values()))
    store = world.ensemble.connect()
    while await store.exists(znodes.topic_path(TOPIC)) is not None:  # noqa: ASYNC110  polled on virtual time
        await asyncio.sleep(0.1)
    await world.create_topic(TOPIC, partitions=1)
    assert topic_id_of(world) != before
    await one.until({0})
    assert before not in one.assigned

    assert await one.beat(epoch=-1) is ErrorCode.NONE
    for value in (b"a", b"b", b"c"):
        await world.produce(TOPIC, value)
    assert await begin_at(world, 1) is ErrorCode.NONE
    assert await starts(world) == {0: (1, 2)}
    request = DeleteGroupsRequest(groups_names=[GROUP])
    answer = await world.ask(await coordinator_of(world), request, 2, DeleteGroupsResponse)
    assert [row.error_code for row in answer.results] == [ErrorCode.NONE]
    assert await starts(world) == {}
    states = next(iter(world.live.values())).services.share_states
    summaries = await states.read_summary(GROUP, [(topic_id_of(world), 0, -1)])
    assert [each.start_offset for each in summaries.values()] == [-1]
