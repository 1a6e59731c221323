"""Groups of several real brokers on one simulated ensemble: who coordinates them, and what a new coordinator tells."""

from __future__ import annotations

import asyncio

from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.simulation.loop import SimLoop

GROUP = "readers"


async def coordinator_of(world: ClusterWorld, asked: int) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
            found = (await world.ask(asked, request, 6, FindCoordinatorResponse)).coordinators[0]
            if found.error_code == ErrorCode.NONE:
                return found.node_id
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.1)


async def commit(world: ClusterWorld, coordinator: int, topic: str, offset: int) -> ErrorCode:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    answer = await world.ask(coordinator, request, 8, OffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(world: ClusterWorld, coordinator: int, topic: str) -> tuple[ErrorCode, int]:
    request = OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])], require_stable=False
    )
    answer = await world.ask(coordinator, request, 7, OffsetFetchResponse)
    if answer.error_code != ErrorCode.NONE:
        return ErrorCode(answer.error_code), -1
    return ErrorCode.NONE, answer.topics[0].partitions[0].committed_offset


@simulated(10)
async def test_groups_are_coordinated_where_the_partition_is_led(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders")
    found = {await coordinator_of(world, asked) for asked in world.live}
    assert len(found) == 1
    [coordinator] = found
    await world.until(lambda: world.live[coordinator].services.groups.runtime.contexts() != [])
    async with asyncio.timeout(PATIENCE_S):
        while (code := await commit(world, coordinator, "orders", 5)) is not ErrorCode.NONE:
            assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0.1)
    for other in world.live.keys() - {coordinator}:
        assert await commit(world, other, "orders", 6) is ErrorCode.NOT_COORDINATOR
    world.machines[coordinator].crash()
    await world.until(lambda: len(world.live) == 2)
    survivor = next(iter(world.live))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            second = await coordinator_of(world, survivor)
            if second != coordinator:
                answer = await committed(world, second, "orders")
                if answer == (ErrorCode.NONE, 5):
                    break
                assert answer[0] in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
            await asyncio.sleep(0.1)


@simulated(1)
async def test_groups_stay_where_they_are_when_the_setting_that_made_the_topic_changes(loop: SimLoop) -> None:
    """The first broker that starts hears of the brokers before it hears of the topics."""
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders")
    passing = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
    async with asyncio.timeout(PATIENCE_S):
        while (code := await commit(world, await coordinator_of(world, 1), "orders", 42)) is not ErrorCode.NONE:
            assert code in passing
    for machine in world.machines.values():
        await machine.stop()
    world.reconfigure(offsets_topic_num_partitions="7")
    await world.start()
    for asked in world.live:
        async with asyncio.timeout(PATIENCE_S):
            answer = passing[0], -1
            while answer[0] in passing:
                answer = await committed(world, await coordinator_of(world, asked), "orders")
        assert answer == (ErrorCode.NONE, 42)


@simulated(1)
async def test_a_new_coordinator_tells_no_offset_that_could_still_be_lost(loop: SimLoop) -> None:
    """The old one died while a commit was on its way to the last of its followers."""
    world = ClusterWorld(loop, offsets_topic_num_partitions="1")
    await world.start()
    await world.create_topic("orders")
    await coordinator_of(world, 1)
    await world.until(lambda: world.leader_of(GROUP_METADATA_TOPIC) != -1)
    await world.until(lambda: world.isr_of(GROUP_METADATA_TOPIC) == {1, 2, 3})
    first = world.leader_of(GROUP_METADATA_TOPIC)
    async with asyncio.timeout(PATIENCE_S):
        while await commit(world, first, "orders", 90) is not ErrorCode.NONE:  # noqa: ASYNC110  polled on virtual time
            await asyncio.sleep(0.1)
    [shown] = {broker.metadata.image.partition(GROUP_METADATA_TOPIC, 0) for broker in world.live.values()}
    assert shown is not None
    second, idle = [broker_id for broker_id in shown.replicas if broker_id != first]

    fetchers = world.live[idle].services.fetchers
    assert fetchers is not None
    await fetchers.stop_following(GROUP_METADATA_TOPIC, 0)
    fetchers.stop_accepting()
    late = asyncio.ensure_future(commit(world, first, "orders", 100))
    held = world.live[second].services.partitions.find(GROUP_METADATA_TOPIC, 0)
    led = world.live[first].services.partitions.find(GROUP_METADATA_TOPIC, 0)
    assert held is not None and led is not None
    await world.until(lambda: held.log.log_end_offset == led.log.log_end_offset > led.high_watermark)
    world.machines[first].crash()
    await asyncio.gather(late, return_exceptions=True)
    await world.until(lambda: held.is_leader)
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await committed(world, second, "orders"))[0] is not ErrorCode.NONE:  # noqa: ASYNC110  polled on virtual time
            await asyncio.sleep(0.01)
    assert answer == (ErrorCode.NONE, 100)
    assert held.high_watermark == held.log.log_end_offset


@simulated(11)
async def test_internal_topics_wait_for_enough_brokers(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start(1, 2)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    for _ in range(3):
        found = (await world.ask(1, request, 6, FindCoordinatorResponse)).coordinators[0]
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(0.5)
    assert "__consumer_offsets" not in world.live[1].metadata.image.topics
    await world.start(3)
    assert await coordinator_of(world, 1) in {1, 2, 3}
    partition = world.live[1].metadata.image.partition("__consumer_offsets", 0)
    assert partition is not None
    assert set(partition.replicas) == {1, 2, 3}
