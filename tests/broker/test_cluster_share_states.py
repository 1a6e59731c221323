"""States of share partitions in several real brokers on one simulated ensemble: who keeps them, and what another coordinator
finds."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.cluster.sharing.share_state_client import ShareStateClient
from broker.observability.gauges import _share_states
from metadata.image import SHARE_GROUP_STATE_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.primitives import ZERO_UUID
from protocol.share_states import DeliveryState, StateBatch, share_key
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.simulation.loop import SimLoop

GROUP = "workers"
SETTINGS = {
    "barnabas_initial_features": "newest",
    "share_coordinator_state_topic_num_partitions": "3",
    "share_coordinator_state_topic_segment_bytes": "1048576",
}

LONE = {
    "offsets_topic_replication_factor": "1",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}
"""Of a cluster with one broker."""


def states(world: ClusterWorld, broker_id: int) -> ShareStateClient:
    return world.live[broker_id].services.share_states


def topic_id_of(world: ClusterWorld, topic: str) -> bytes:
    return next(iter(world.live.values())).metadata.image.topic_id(topic)


async def write(world: ClusterWorld, broker_id: int, topic_id: bytes, offset: int, leader_epoch: int) -> ErrorCode:
    outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    states(world, broker_id).write(
        GROUP, topic_id, 0, state_epoch=1, leader_epoch=leader_epoch, start_offset=-1, delivery_complete_count=0,
        batches=[StateBatch(offset, offset, DeliveryState.ACKNOWLEDGED, 1)], done=outcome.set_result,
    )  # fmt: skip
    return await asyncio.wait_for(outcome, PATIENCE_S)


async def coordinator_of(world: ClusterWorld, asked: int, key: str) -> tuple[ErrorCode, int]:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    found = (await world.ask(asked, request, 6, FindCoordinatorResponse)).coordinators[0]
    return ErrorCode(found.error_code), found.node_id


@simulated(3)
async def test_another_coordinator_has_what_was_stored(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **SETTINGS)
    await world.start()
    await world.create_topic("orders")
    topic_id = topic_id_of(world, "orders")
    assert SHARE_GROUP_STATE_TOPIC not in world.live[1].metadata.image.topics
    assert await states(world, 1).initialize(GROUP, [(topic_id, 0, 1, 5)]) == {(topic_id, 0): ErrorCode.NONE}
    key = share_key(GROUP, topic_id, 0)
    answers = {await coordinator_of(world, asked, key) for asked in world.live}
    [(error, coordinator)] = answers
    assert error is ErrorCode.NONE
    assert await coordinator_of(world, 1, "g:orders:0") == (ErrorCode.INVALID_REQUEST, -1)
    for broker_id in world.live:
        await states(world, broker_id).read(GROUP, topic_id, 0, broker_id)
        assert await write(world, broker_id, topic_id, 10 * broker_id, broker_id) is ErrorCode.NONE
    others = [broker_id for broker_id in world.live if broker_id != coordinator]
    writes = [asyncio.ensure_future(write(world, others[0], topic_id, 100 + index, 3)) for index in range(5)]
    await asyncio.sleep(0.001)
    world.machines[coordinator].crash()
    assert set(await asyncio.gather(*writes)) == {ErrorCode.NONE}
    found = await states(world, others[1]).read(GROUP, topic_id, 0, 4)
    assert [each.first_offset for each in found.batches] == [10, 20, 30, 100]
    assert found.batches[-1].last_offset == 104
    assert await write(world, others[0], topic_id, 200, 3) is ErrorCode.FENCED_LEADER_EPOCH
    [(_, successor)] = {await coordinator_of(world, asked, key) for asked in world.live}
    assert successor != coordinator


@simulated(4)
async def test_the_log_of_states_stays_short(loop: SimLoop) -> None:
    """What snapshots have replaced is deleted, and the states of a topic go with it."""
    world = ClusterWorld(loop, (1,), share_coordinator_snapshot_update_records_per_snapshot="10", **LONE, **SETTINGS)
    await world.start()
    await world.create_topic("orders", replicas=1)
    topic_id = topic_id_of(world, "orders")
    await states(world, 1).initialize(GROUP, [(topic_id, 0, 1, 0)])
    await states(world, 1).read(GROUP, topic_id, 0, 0)
    for offset in range(50):
        assert await write(world, 1, topic_id, offset, 0) is ErrorCode.NONE
    services = world.live[1].services
    index = services.share_coordinator.partition_for(share_key(GROUP, topic_id, 0))
    assert index is not None
    partition = services.partitions.find(SHARE_GROUP_STATE_TOPIC, index)
    assert partition is not None
    assert partition.log.log_start_offset == 0
    figures = {sample.metric.name: sample.value for sample in _share_states(services)}
    assert figures["write-total"] == 50
    assert 0 <= figures["write-latency-avg"] <= figures["write-latency-max"] < 1_000
    assert 0 <= figures["partition-load-time-avg"] <= figures["partition-load-time-max"]
    await world.until(lambda: partition.log.log_start_offset > 40, 400)
    samples = {(sample.metric.name, *sample.labels): sample.value for sample in _share_states(services)}
    assert samples["last-pruned-offset", SHARE_GROUP_STATE_TOPIC, str(index)] == partition.log.log_start_offset
    assert samples["num-partitions", "active"] == 3
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=30_000)
    await world.ask(1, request, 6, DeleteTopicsResponse)
    await world.until(
        lambda: all(not shard.durable_state() for shard in services.share_coordinator.runtime.active_shards())
    )


@simulated(5)
async def test_a_full_disk_delays_changes_and_loses_none(loop: SimLoop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coordinator.share_observation")
    world = ClusterWorld(loop, (1,), barnabas_disk_free_min_bytes="1000", **LONE, **SETTINGS)
    await world.start()
    await world.create_topic("orders", replicas=1)
    topic_id = topic_id_of(world, "orders")
    await states(world, 1).initialize(GROUP, [(topic_id, 0, 1, 0)])
    await states(world, 1).read(GROUP, topic_id, 0, 0)
    storage = world.machines[1].storage
    storage.capacity_bytes = storage.used_bytes + 900
    await asyncio.sleep(2)
    assert (await world.produce("orders", b"refused"))[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert await write(world, 1, topic_id, 0, 0) is ErrorCode.NONE  # what the broker keeps itself may use the reserve
    storage.capacity_bytes = storage.used_bytes
    writes = [asyncio.ensure_future(write(world, 1, topic_id, offset, 0)) for offset in (2, 4, 6)]
    await asyncio.sleep(5)
    assert not any(each.done() for each in writes)
    assert len([line for line in caplog.messages if "error=KAFKA_STORAGE_ERROR" in line]) <= 2
    storage.capacity_bytes = None
    assert await asyncio.gather(*writes) == [ErrorCode.NONE] * 3
    world.machines[1].crash()
    await world.machines[1].ended()
    await world.start(1)
    found = await states(world, 1).read(GROUP, topic_id, 0, 0)
    assert [each.first_offset for each in found.batches] == [0, 2, 4, 6]


@simulated(6)
async def test_a_change_that_nobody_takes_in_time_fails_once(loop: SimLoop) -> None:
    """Too few replicas in sync: what was refused leaves no trace, and the next change is stored."""
    world = ClusterWorld(loop, request_timeout_ms="8000", **SETTINGS)
    await world.start()
    await world.create_topic("orders")
    topic_id = topic_id_of(world, "orders")
    await states(world, 1).initialize(GROUP, [(topic_id, 0, 1, 0)])
    key = share_key(GROUP, topic_id, 0)
    _, coordinator = await coordinator_of(world, 1, key)
    others = [broker_id for broker_id in world.live if broker_id != coordinator]
    await states(world, coordinator).read(GROUP, topic_id, 0, 0)
    for broker_id in others:
        world.machines[broker_id].crash()
    index = world.live[coordinator].services.share_coordinator.partition_for(key)
    assert index is not None
    await world.until(lambda: len(world.isr_of(SHARE_GROUP_STATE_TOPIC, index)) == 1)
    assert await write(world, coordinator, topic_id, 0, 0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for broker_id in others:
        await world.machines[broker_id].ended()
    await world.start(*others)
    await world.until(lambda: len(world.isr_of(SHARE_GROUP_STATE_TOPIC, index)) == 3)
    assert await write(world, coordinator, topic_id, 2, 0) is ErrorCode.NONE
    found = await states(world, others[0]).read(GROUP, topic_id, 0, 1)
    assert [each.first_offset for each in found.batches] == [2]
