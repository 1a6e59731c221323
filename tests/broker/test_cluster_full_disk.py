"""Brokers of a cluster without a byte left: what was created meanwhile works when there is room, and who watches sees it."""

from __future__ import annotations

import pytest

from broker.observability.gauges import gauges
from metadata.store import znodes
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.primitives import ZERO_UUID
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop


def fill(world: ClusterWorld, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        storage = world.machines[broker_id].storage
        storage.capacity_bytes = storage.used_bytes


def make_room(world: ClusterWorld) -> None:
    for machine in world.machines.values():
        machine.storage.capacity_bytes = None


def held_count(world: ClusterWorld) -> int:
    return sum(len(broker.services.partitions) for broker in world.live.values())


@pytest.mark.parametrize("floor_bytes", [0, 1000])
@simulated(1)
async def test_topics_created_on_a_full_broker_are_taken_up_when_there_is_room(loop: SimLoop, floor_bytes: int) -> None:
    world = ClusterWorld(
        loop, (1,), offsets_topic_replication_factor="1", barnabas_disk_free_min_bytes=str(floor_bytes)
    )
    await world.start()
    fill(world, 1)
    await world.create_topic("orders", partitions=2, replicas=1)
    request = FindCoordinatorRequest(key="group")
    await world.ask(1, request, 2, FindCoordinatorResponse)
    await world.until(lambda: "__consumer_offsets" in world.live[1].metadata.image.topics)
    assert held_count(world) == 0
    make_room(world)
    for partition in range(2):
        assert await world.produce("orders", b"on", partition) == (ErrorCode.NONE, 0)
    await world.until(lambda: held_count(world) == 2 + 3)
    answer = await world.ask(1, request, 2, FindCoordinatorResponse)
    assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("full", [(1,), (1, 2), (1, 2, 3)])
@simulated(1)
async def test_replicas_of_full_brokers_come_into_sync_when_there_is_room(loop: SimLoop, full: tuple[int, ...]) -> None:
    world = ClusterWorld(loop, barnabas_disk_free_min_bytes="1000", replica_lag_time_max_ms="10000")
    await world.start()
    fill(world, *full)
    await world.create_topic("orders", partitions=3)
    assert held_count(world) == 3 * (3 - len(full))
    make_room(world)
    for partition in range(3):
        # Shortly after a refused write a disk counts as full.
        while (await world.produce("orders", b"on", partition))[0] is ErrorCode.KAFKA_STORAGE_ERROR:
            pass
    for partition in range(3):
        await world.until(lambda partition=partition: world.isr_of("orders", partition) == {1, 2, 3})  # type: ignore[misc]
    assert held_count(world) == 9


@pytest.mark.parametrize("full", [(1,), (1, 2, 3)])
@simulated(1)
async def test_a_topic_created_on_full_brokers_can_be_deleted(loop: SimLoop, full: tuple[int, ...]) -> None:
    world = ClusterWorld(loop, barnabas_disk_free_min_bytes="1000")
    await world.start()
    fill(world, *full)
    await world.create_topic("orders", partitions=3)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=10_000)
    answer = await world.ask(world.controller_id, request, 6, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    make_room(world)
    await world.until(lambda: znodes.topic_path("orders") not in world.ensemble.tree.nodes)
    await world.create_topic("orders", partitions=3)
    for partition in range(3):
        while (await world.produce("orders", b"on", partition))[0] is ErrorCode.KAFKA_STORAGE_ERROR:
            pass
    await world.until(lambda: held_count(world) == 9)


@simulated(1)
async def test_a_scrape_tells_how_much_room_there_is_and_that_records_are_refused(loop: SimLoop) -> None:
    """The only one that does: the broker is ready all the while, and its directory online."""
    world = ClusterWorld(loop, (1,), barnabas_disk_free_min_bytes="1000")
    await world.start()
    await world.create_topic("orders", partitions=1, replicas=1)
    broker, storage = world.live[1], world.machines[1].storage
    (directory,) = broker.logs.online_directories

    def seen() -> dict[str, float]:
        return {
            sample.metric.prometheus_name: sample.value
            for sample in gauges(broker.services)
            if sample.labels == (directory,) and sample.metric.own
        }

    assert await world.produce("orders", b"taken") == (ErrorCode.NONE, 0)
    assert seen()["barnabas_log_directory_floor_bytes"] == 1000
    assert seen()["barnabas_log_directory_refusing"] == 0
    storage.capacity_bytes = storage.used_bytes + 600  # the broker's own records are still taken
    await world.until(lambda: seen()["barnabas_log_directory_refusing"] == 1)
    assert seen()["barnabas_log_directory_free_bytes"] == 600
    assert (await world.produce("orders", b"refused"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    fill(world, 1)
    await world.until(lambda: seen()["barnabas_log_directory_free_bytes"] == 0)
    assert seen()["barnabas_log_directory_refusing"] == 1
    assert broker.is_ready and broker.logs.online_directories == [directory]
    make_room(world)
    await world.until(lambda: seen()["barnabas_log_directory_refusing"] == 0)
    assert await world.produce("orders", b"taken") == (ErrorCode.NONE, 1)
