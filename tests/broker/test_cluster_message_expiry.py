"""Records that expire in a cluster: on every replica, under every leader, over restarts; and who refuses the setting."""

from __future__ import annotations

import asyncio

import pytest

from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

TTL = "barnabas.message.ttl.ms"
TOPIC, SET = 2, 0


def starts(world: ClusterWorld, topic: str) -> set[int]:
    """Where the replicas on live brokers begin."""
    logs = [broker.logs.find(topic, 0) for broker in world.live.values()]
    return {-1 if log is None else log.log_start_offset for log in logs}


async def alter(world: ClusterWorld, topic: str, name: str, value: str) -> tuple[ErrorCode, str | None]:
    row = AlterableConfig(name=name, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[row])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await world.ask(world.controller_id, request, 1, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


@simulated(1)
async def test_every_replica_begins_with_what_has_not_expired(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", message_timestamp_type="LogAppendTime")
    for number in range(5):
        await world.produce("orders", b"%d" % number)
    loop_s = loop.time()
    assert await alter(world, "orders", TTL, "20000") == (ErrorCode.NONE, None)
    await world.until(lambda: starts(world, "orders") == {5})
    assert 19 < loop.time() - loop_s < 25
    await world.produce("orders", b"later")
    leader = world.leader_of("orders")
    world.machines[leader].crash()
    await world.until(lambda: starts(world, "orders") == {6})
    assert world.leader_of("orders") != leader
    await world.start(leader)
    await world.until(lambda: world.isr_of("orders") == {1, 2, 3} and starts(world, "orders") == {6})
    assert await alter(world, "orders", TTL, "-1") == (ErrorCode.NONE, None)
    await world.produce("orders", b"stays")
    await asyncio.sleep(60)
    assert starts(world, "orders") == {6}


@simulated(2)
async def test_what_has_expired_stays_so_after_a_stop_of_the_whole_cluster(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", **{TTL: "1000", "message.timestamp.type": "LogAppendTime"})
    await world.produce("orders", b"v")
    await world.until(lambda: starts(world, "orders") == {1})
    for machine in world.machines.values():
        await machine.stop()
    await world.start()
    assert starts(world, "orders") == {1}


@simulated(3)
async def test_the_setting_is_refused_where_records_are_compacted(loop: SimLoop) -> None:
    world = ClusterWorld(loop, offsets_topic_replication_factor="3")
    await world.start()
    await world.create_topic("compacted", cleanup_policy="compact")
    await world.create_topic("both", cleanup_policy="compact,delete")
    await world.create_topic(GROUP_METADATA_TOPIC, cleanup_policy="delete")
    error, message = await alter(world, "compacted", TTL, "1")
    assert error is ErrorCode.INVALID_CONFIG
    assert "only records of a topic with cleanup.policy delete expire" in (message or "")
    assert (await alter(world, "both", TTL, "1"))[0] is ErrorCode.NONE
    assert (await alter(world, "both", "cleanup.policy", "compact"))[0] is ErrorCode.INVALID_CONFIG
    assert (await alter(world, "both", "cleanup.policy", "delete"))[0] is ErrorCode.NONE
    error, message = await alter(world, GROUP_METADATA_TOPIC, TTL, "1")
    assert error is ErrorCode.INVALID_CONFIG
    assert "internal topic" in (message or "")
    with pytest.raises(AssertionError, match="error_code=40"):
        await world.create_topic("never", **{TTL: "1", "cleanup.policy": "compact"})
