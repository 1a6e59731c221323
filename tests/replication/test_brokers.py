"""Real brokers that copy from each other on a simulated network: failover, divergence, old versions, deletion, disks."""

from __future__ import annotations

import asyncio

import pytest

from broker.server import Broker
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.record import Record, encode_batch
from storage.log.partition_log import PartitionLog
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.simulation.loop import SimLoop, simulate
from tests.storage.logs import all_values


def log_of(broker: Broker, topic: str = "t", partition: int = 0) -> PartitionLog:
    log = broker.logs.find(topic, partition)
    assert log is not None
    return log


async def produce_to(
    world: ClusterWorld, broker_id: int, topic: str, value: bytes, partition: int = 0, acks: int = -1
) -> ErrorCode:
    data = PartitionProduceData(index=partition, records=encode_batch([Record(0, 0, None, value)]))
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=20_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = await world.ask(broker_id, request, 9, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def expire_session(world: ClusterWorld, broker_id: int) -> None:
    store = world.machines[broker_id]._access.store
    assert store is not None
    world.ensemble.expire(store.session().session_id)


async def same_logs(world: ClusterWorld, topic: str = "t", partition: int = 0) -> list[str]:
    """The values, once all live brokers hold the same and know that it is committed."""

    def are_same() -> bool:
        logs = [log_of(broker, topic, partition) for broker in world.live.values()]
        return len({(log.log_start_offset, log.log_end_offset, log.high_watermark) for log in logs}) == 1 and all(
            log.high_watermark == log.log_end_offset for log in logs
        )

    await world.until(are_same)
    [first, *others] = [await all_values(log_of(broker, topic, partition)) for broker in world.live.values()]
    assert all(other == first for other in others)
    epochs = {tuple(log_of(broker, topic, partition).epochs.known.entries) for broker in world.live.values()}
    assert len(epochs) == 1
    return [value for _, value in first]


@pytest.mark.parametrize("version", ["3.9", "3.4", "2.8", "2.7-IV1", "2.6", "2.3", "2.0", "1.1", "0.11.0"])
@simulated(1)
async def test_brokers_of_any_version_copy_and_fail_over(loop: SimLoop, version: str) -> None:
    world = ClusterWorld(loop, inter_broker_protocol_version=version)
    await world.start()
    await world.create_topic("t")
    for number in range(5):
        assert await world.produce("t", b"%d" % number) == (ErrorCode.NONE, number)
    leader = world.leader_of("t")
    world.machines[leader].crash()
    await world.until(lambda: world.leader_of("t") not in (leader, -1))
    assert (await world.produce("t", b"after"))[0] is ErrorCode.NONE
    await world.start(leader)
    await world.until(lambda: world.isr_of("t") == {1, 2, 3})
    assert await same_logs(world) == ["0", "1", "2", "3", "4", "after"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", ["3.9", "2.6"])
def test_what_an_isolated_leader_took_alone_goes(version: str, seed: int) -> None:
    """acks=1 on the wrong side of a partition: those records were never promised, and no log may keep them."""

    async def program(loop: SimLoop) -> None:
        world = ClusterWorld(loop, inter_broker_protocol_version=version)
        await world.start()
        await world.create_topic("t", partitions=3, min_insync_replicas="1")
        # One whose leader is not the controller as well: that would keep the others in the dark.
        index = next(index for index in range(3) if world.leader_of("t", index) != world.controller_id)
        for number in range(3):
            await world.produce("t", b"both %d" % number, index)
        old = world.leader_of("t", index)
        for other in world.machines:
            if other != old:
                world.network.cut(f"host{old}", f"host{other}")
        for number in range(4):
            assert await produce_to(world, old, "t", b"alone %d" % number, index, acks=1) is ErrorCode.NONE
        assert log_of(world.live[old], "t", index).log_end_offset == 7
        expire_session(world, old)
        seeing = world.live[world.controller_id].metadata

        def leader() -> int:
            found = seeing.image.partition("t", index)
            return -1 if found is None else found.leader

        await world.until(lambda: leader() not in (old, -1))
        assert await produce_to(world, leader(), "t", b"elected", index) is ErrorCode.NONE
        world.network.heal()
        assert await same_logs(world, "t", index) == ["both 0", "both 1", "both 2", "elected"]
        assert log_of(world.live[old], "t", index).epochs.latest_epoch > 0

    simulate(seed, program)


@simulated(1)
async def test_deleted_records_go_on_every_replica(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("t")
    for number in range(6):
        await world.produce("t", b"%d" % number)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
    answer = await world.ask(world.leader_of("t"), request, 2, DeleteRecordsResponse)
    row = answer.topics[0].partitions[0]
    assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 4)
    assert [log_of(broker).log_start_offset for broker in world.live.values()] == [4, 4, 4]
    assert await same_logs(world) == ["4", "5"]


@simulated(1)
async def test_a_replica_that_was_away_for_long_begins_where_its_leader_does(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("t")
    await world.produce("t", b"old")
    leader = world.leader_of("t")
    away = next(broker_id for broker_id in world.machines if broker_id != leader)
    await world.machines[away].stop()
    for number in range(6):
        await world.produce("t", b"%d" % number)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=5)])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
    await world.ask(world.leader_of("t"), request, 2, DeleteRecordsResponse)
    await world.start(away)
    await world.until(lambda: world.isr_of("t") == {1, 2, 3})
    assert await same_logs(world) == ["4", "5"]
    assert log_of(world.live[away]).log_start_offset == 5


@simulated(1)
async def test_a_follower_whose_disk_fails_leaves_the_isr_and_the_rest_goes_on(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("t", partitions=3)
    broken = next(broker_id for broker_id in world.machines if broker_id != world.leader_of("t"))
    world.machines[broken].storage.fail("/data/t-0")
    await world.produce("t", b"x", acks=1)
    await world.until(lambda: broken not in world.live or world.live[broken].logs.online_directories == [], 60)


@pytest.mark.parametrize("fetchers_count", ["2", "0"])  # a file may say 0: there is one then
@simulated(1)
async def test_large_records_and_many_partitions_are_copied(loop: SimLoop, fetchers_count: str) -> None:
    world = ClusterWorld(
        loop,
        replica_fetch_max_bytes="1000",
        replica_fetch_response_max_bytes="20000",
        num_replica_fetchers=fetchers_count,
    )
    await world.start()
    await world.create_topic("t", partitions=12)
    for index in range(12):
        for number in range(3):
            error, _ = await world.produce("t", b"%d" % number * 9000, partition=index)
            assert error is ErrorCode.NONE
    for index in range(12):
        assert len(await same_logs(world, partition=index)) == 3


@simulated(3)
async def test_acknowledged_by_all_within_a_round_trip_after_a_move_of_leadership(loop: SimLoop) -> None:
    """A follower's fetch that waits at its new leader for others must not hold up the partition that has just come."""
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("t", partitions=9)
    await asyncio.sleep(2)
    leaving = world.leader_of("t", 4)
    began_s = loop.time()
    stopping = asyncio.ensure_future(world.machines[leaving].stop())
    await world.until(lambda: world.leader_of("t", 4) not in (leaving, -1))
    async with asyncio.timeout(PATIENCE_S):
        assert (await world.produce("t", b"x", partition=4))[0] is ErrorCode.NONE
    assert loop.time() - began_s < 0.3
    await stopping
