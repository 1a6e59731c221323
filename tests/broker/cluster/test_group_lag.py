"""The lag of groups, measured by the coordinator's broker over a simulated cluster."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from broker.cluster.group_lag import MeasuredLag, timestamp_in
from broker.observability import metric_table as table
from broker.observability.gauges import gauges
from broker.server import Broker
from coordinator.group.commit_window import GroupStatus
from coordinator.group.offsets import CommittedOffset
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.records.record import Record, encode_batch
from tests.async_tests import simulated
from tests.broker.cluster.lag_model import HERE, LagModel, run, timestamp_of
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

GROUP = "readers"


async def coordinator_of(world: ClusterWorld) -> int:
    while True:
        found = await world.ask(1, FindCoordinatorRequest(key=GROUP), 0, FindCoordinatorResponse)
        if found.error_code == ErrorCode.NONE:
            return found.node_id
        await asyncio.sleep(0.5)


async def commit(world: ClusterWorld, broker_id: int, offsets: dict[int, int]) -> None:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index, offset in offsets.items()
    ]
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)])
    while True:
        response = await world.ask(broker_id, request, 2, OffsetCommitResponse)
        codes = {row.error_code for topic in response.topics for row in topic.partitions}
        if codes == {ErrorCode.NONE}:
            return
        assert codes <= {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}, codes
        await asyncio.sleep(0.5)


def measured(broker: Broker, metric: table.Metric) -> dict[int, float]:
    return {int(sample.labels[2]): sample.value for sample in gauges(broker.services) if sample.metric is metric}


@simulated(1)
async def test_lag_is_measured_at_all_leaders_and_unknown_without_one(loop: SimLoop) -> None:
    world = ClusterWorld(loop, barnabas_lag_interval_ms="0")
    await world.start()
    await world.create_topic("orders", partitions=3, replicas=1)
    coordinator_id = await coordinator_of(world)
    for index in range(3):
        for number in range(5):
            await world.produce("orders", f"{number}".encode(), index)
    await commit(world, coordinator_id, {0: 5, 1: 3, 2: 0})
    broker = world.machines[coordinator_id].broker
    assert broker is not None
    lag = broker.services.group_lag
    await lag.measure()
    assert measured(broker, table.GROUP_LAG) == {0: 0, 1: 2, 2: 5}
    ages = measured(broker, table.GROUP_LAG_SECONDS)
    assert ages[0] == 0
    assert 0 <= ages[1] <= ages[2]
    assert not any(math.isnan(age) for age in ages.values())
    other = next(index for index in range(3) if world.leader_of("orders", index) != coordinator_id)
    world.network.cut(f"host{coordinator_id}", f"host{world.leader_of('orders', other)}")
    await lag.measure()
    found = measured(broker, table.GROUP_LAG)
    assert math.isnan(found.pop(other))
    assert not any(math.isnan(value) for value in found.values())


@pytest.mark.parametrize("seed", range(3))
def test_every_lag_is_that_of_its_round_while_everything_changes(seed: int) -> None:
    """Tens of thousands of samples; a million of them in tests/interop/cluster/test_group_lag.py."""
    model = run(seed, samples=20_000)
    assert 0.1 < model.unknown / model.samples < 0.6
    assert model.unknown_ages < model.samples / 5


@pytest.mark.parametrize(("offset", "expected"), [(10, 1_000), (11, 1_500), (12, 2_000), (99, 2_000)])
def test_a_timestamp_between_two_is_taken_evenly(offset: int, expected: int) -> None:
    records = [
        Record(offset_of, timestamp, None, b"x") for offset_of, timestamp in ((10, 1_000), (11, 1_900), (12, 2_000))
    ]
    assert timestamp_in(encode_batch(records, base_offset=10), offset) == expected


@pytest.mark.parametrize("leader", [HERE, 2])
def test_a_group_that_has_only_markers_before_it_has_read_all(leader: int) -> None:
    model = LagModel(seed=1, topics=1, partitions=1, groups=1)
    model.changes = 0
    [(key, partition)] = model.partitions.items()
    partition.leader, partition.end, partition.markers = leader, 12, {10, 11}
    model.groups["g0"][key] = CommittedOffset(10, -1, "", model.clock.now_ms)

    def measured_later() -> tuple[MeasuredLag, GroupStatus]:
        model.clock.now_ms += 1_000_000
        asyncio.run(model.lag.measure())
        [found], statuses = model.lag.latest()
        return found, statuses["g0"]

    for _ in range(3):
        found, status = measured_later()
        assert (found.lag, found.age_ms, status) == (2, 0, GroupStatus.OK)
    partition.end = 14  # one record, and the marker of its transaction
    partition.markers.add(13)
    found, status = measured_later()
    assert (found.lag, found.age_ms, status) == (
        4,
        model.clock.now_ms - timestamp_of(12, partition.life),
        GroupStatus.OK,
    )
    assert measured_later()[1] == GroupStatus.STOPPED
    partition.end = 11  # an unclean election
    found, status = measured_later()
    assert (found.lag, found.age_ms, status) == (1, 0, GroupStatus.OK)


@pytest.mark.parametrize("leader", [HERE, 2])
@pytest.mark.parametrize(
    "gone",
    [
        {"start": 10},
        {"start": 7, "compacted": {7, 8, 9}},
        {"emptied": {8, 9}, "markers": {7}, "compacted": {3, 4, 5, 6}},
    ],
    ids=["deleted", "compacted", "empty batches"],
)
def test_a_group_before_which_nothing_is_left_has_read_all(leader: int, gone: dict[str, Any]) -> None:
    """Its lag is that of kafka-consumer-groups.sh, and no alert follows from it."""
    model = LagModel(seed=1, topics=1, partitions=1, groups=1)
    model.changes = 0
    [(key, partition)] = model.partitions.items()
    partition.leader, partition.end = leader, 10
    for name, value in gone.items():
        setattr(partition, name, value)
    model.groups["g0"][key] = CommittedOffset(3, -1, "", model.clock.now_ms)

    def measured_later() -> tuple[MeasuredLag, GroupStatus]:
        model.clock.now_ms += 1_000_000
        asyncio.run(model.lag.measure())
        [found], statuses = model.lag.latest()
        return found, statuses["g0"]

    for _ in range(3):
        found, status = measured_later()
        assert (found.lag, found.age_ms, status) == (7, 0, GroupStatus.OK)
    partition.end = 11
    for expected in (GroupStatus.OK, GroupStatus.STOPPED):
        found, status = measured_later()
        age_ms = model.clock.now_ms - timestamp_of(10, partition.life)
        assert (found.lag, found.age_ms, status) == (8, age_ms, expected)


def test_records_without_timestamps_have_no_age() -> None:
    assert timestamp_in(encode_batch([Record(0, -1, None, b"x")], base_offset=0), 0) is None
    assert timestamp_in(encode_batch([Record(0, -1, None, b"x"), Record(1, 5, None, b"x")], base_offset=0), 0) is None


def test_what_is_no_batch_has_no_timestamp() -> None:
    assert timestamp_in(b"", 0) is None
    assert timestamp_in(b"\x00" * 70, 0) is None
