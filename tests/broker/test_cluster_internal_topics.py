"""Internal topics of several real brokers on one simulated ensemble: made before anybody needs them, or waited for."""

from __future__ import annotations

import asyncio

import pytest

from metadata.image import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.simulation.loop import SimLoop

BOTH = {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC}
EARLY = {"barnabas_internal_topics_create_enable": "true", "transaction_state_log_num_partitions": "3"}


async def asked(world: ClusterWorld, broker_id: int, key_type: int = 0) -> ErrorCode:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["first"])
    answer = await world.ask(broker_id, request, 6, FindCoordinatorResponse)
    return ErrorCode(answer.coordinators[0].error_code)


async def found(world: ClusterWorld, broker_id: int, key_type: int = 0) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await asked(world, broker_id, key_type) is ErrorCode.NONE:
                return
            await asyncio.sleep(0.1)


def topics_of(world: ClusterWorld) -> list[set[str]]:
    return [BOTH & broker.metadata.image.topics.keys() for broker in world.live.values()]


@simulated(1)
async def test_a_group_that_is_first_used_while_a_broker_is_down_has_a_coordinator(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **EARLY)
    await world.start(1)
    await world.start(2)
    assert topics_of(world) == [set(), set()]
    await world.start(3)
    await world.until(lambda: topics_of(world) == [BOTH] * 3)
    for topic in BOTH:
        await world.until(lambda topic=topic: world.isr_of(topic) == {1, 2, 3})  # type: ignore[misc]
    await world.machines[3].stop()
    for key_type in (0, 1):
        await found(world, 1, key_type)
        await found(world, 2, key_type)


@simulated(2)
async def test_the_next_controller_creates_what_the_last_one_has_not(loop: SimLoop) -> None:
    """With enough brokers only since the controller has gone: brokers that come back count as well as new ones."""
    world = ClusterWorld(loop, **EARLY)
    await world.start(1)
    await world.start(2)
    world.machines[1].expire_session()
    world.machines[1].crash()
    await world.until(lambda: world.live[2].services.controller.is_active)
    await world.start(3)
    assert not any(topics_of(world))
    await world.start(1)
    await world.until(lambda: topics_of(world) == [BOTH] * 3)


@simulated(3)
async def test_a_coordinator_says_once_what_a_missing_topic_waits_for(
    loop: SimLoop, caplog: pytest.LogCaptureFixture
) -> None:
    world = ClusterWorld(loop)
    await world.start(1, 2)
    for _ in range(20):
        assert await asked(world, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(0.1)
    assert not any(topics_of(world)), "as Apache Kafka, without the option"
    [line] = [each for each in caplog.messages if GROUP_METADATA_TOPIC in each]
    assert line == (
        "internal topic waits for more brokers: topic=__consumer_offsets replication_factor=3 brokers=2 "
        "resolution=start brokers, or set offsets.topic.replication.factor lower; until then coordinators are unavailable"
    )
    await world.start(3)
    assert not any(topics_of(world))
    await found(world, 1)


@pytest.mark.parametrize("levels", ["none", "newest"])
@simulated(4)
async def test_the_topic_of_share_groups_is_there_early_only_where_they_are_served(loop: SimLoop, levels: str) -> None:
    settings = {"share_coordinator_state_topic_num_partitions": "3", "barnabas_initial_features": levels}
    world = ClusterWorld(loop, **EARLY, **settings)
    await world.start()
    await world.until(lambda: topics_of(world) == [BOTH] * 3)
    await asyncio.sleep(5)
    there = {SHARE_GROUP_STATE_TOPIC in broker.metadata.image.topics for broker in world.live.values()}
    assert there == {levels == "newest"}
