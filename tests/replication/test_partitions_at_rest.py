"""What a partition costs that nobody uses: a broker may hold ten thousand of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from protocol.errors import ErrorCode
from replication.assignment import PartitionAssignment
from replication.dependencies import PartitionContext
from replication.leader import IsrResponse
from replication.partition import Partition, WakeUps
from replication.waiting.delayed_queues import STABLE_END
from storage.log.partition_log import PartitionLog
from tests.async_tests import played_by
from tests.replication.replica_world import ME, Replica, Surroundings
from tests.storage.logs import config, open_log, world

LED_ALONE = ["LeaderState", "Partition"]
# What a follower copies is looked after by its fetcher, too: see `replication.followers.followed_log`.
FOLLOWED = ["Partition"]

# Behind a function is its whole module, where others change what there is while this test looks.
_NOT_ITS_OWN = (type, FunctionType, ModuleType, PartitionLog)

Scenario = Callable[[Replica, Replica], Awaitable[None]]


def play(folder: Path, scenario: Scenario) -> None:
    """With t-0 and another partition of the same broker."""

    async def run() -> None:
        async with world(str(folder)) as around_logs:
            around = Surroundings()
            host = PartitionContext(ME, WakeUps(around.soon.append), around.doors())
            logs = [await open_log(around_logs, f"{folder}/t-{index}", config()) for index in range(2)]
            one, other = (Replica(Partition(log, host), around) for log in logs)
            await scenario(one, other)
            for log in logs:
                await log.close()

    asyncio.run(run())


def look_at(one: Replica) -> None:
    """As metrics and periodic work look at all partitions, again and again."""
    partition = one.partition
    assert partition.waiters.produces_count == partition.waiters.fetches_count == 0
    assert partition.waiters.deletions_count == 0
    assert partition.assignment.replication_factor and partition.spare_isr >= 0 and not partition.is_under_replicated
    assert not partition.assignment.is_reassigning and partition.low_watermark == 0
    partition.on_tick(one.around.now_ms)
    partition.on_brokers_lost({7})
    partition.on_config_changed()
    partition.on_start_raised()
    partition.truncated()
    partition.waiters.forget_written(1)
    partition.waiters.forget_committed(1)
    partition.waiters.forget_deletion(1)


def own_objects(one: Replica, other: Replica) -> list[str]:
    """The types of what hangs on the first alone, its log left out: of these two partitions, and of what they refer to.

    What is listed is bounded in bytes by `benchmarks.sizes`.
    """

    def reached(root: Any, known: dict[int, Any]) -> dict[int, Any]:
        if id(root) not in known and not isinstance(root, _NOT_ITS_OWN):
            known[id(root)] = root
            for each in gc.get_referents(root):
                reached(each, known)
        return known

    shared = reached(other.partition, {})
    kept = {**reached(one.partition.log.topic, {}), **shared}
    own = reached(one.partition, {})
    return sorted(type(each).__name__ for place, each in own.items() if place not in kept)


@played_by(play, "tmp_path", gives=2)
async def test_one_that_is_led_alone(one: Replica, other: Replica) -> None:
    for each in (one, other):
        each.lead(isr=[ME], replicas=[ME], partition_epoch=1)
        look_at(each)
    assert own_objects(one, other) == LED_ALONE
    await one.append("a")
    look_at(one)
    assert own_objects(one, other) == LED_ALONE


@played_by(play, "tmp_path", gives=2)
async def test_one_that_follows(one: Replica, other: Replica) -> None:
    for each in (one, other):
        each.follow(partition_epoch=1)
        each.partition.append_as_follower(b"", leader_high_watermark=0, leader_log_start_offset=0, now_ms=0)
    assert own_objects(one, other) == FOLLOWED
    one.lead(isr=[ME], replicas=[ME], epoch=1, partition_epoch=2)
    other.lead(isr=[ME], replicas=[ME], epoch=1, partition_epoch=2)
    assert own_objects(one, other) == LED_ALONE


@played_by(play, "tmp_path", gives=2)
async def test_equal_assignments_are_one(one: Replica, other: Replica) -> None:
    for each in (one, other):
        each.lead(isr=[ME], replicas=[ME, 2])
        each.fetched(0)
        each.answer(each.around.wishes.pop(), answer=IsrResponse(ErrorCode.NONE, 0, (ME, 2), 1))
    assert one.partition.assignment == PartitionAssignment(ME, 0, 1, 1, (ME, 2), (ME, 2))
    assert one.partition.assignment is other.partition.assignment
    assert one.partition.leader is not None and other.partition.leader is not None
    assert one.partition.leader.isr is other.partition.leader.isr is one.partition.assignment.replicas
    one.partition.stop()
    assert one.partition.assignment == PartitionAssignment(-1, 0, 1, 1, (ME, 2), (ME, 2))
    assert other.partition.assignment.leader_id == ME


@played_by(play, "tmp_path", gives=2)
async def test_who_has_waited_is_forgotten(one: Replica, other: Replica) -> None:
    one.lead(isr=[ME], replicas=[ME])
    partition = one.partition
    with pytest.raises(AttributeError):
        partition.assignment.isr = ()  # type: ignore[misc]
    for park, forget in (
        (partition.own_waiters().when_written, partition.waiters.forget_written),
        (partition.own_waiters().when_committed, partition.waiters.forget_committed),
        (partition.own_waiters().when_deleted, partition.waiters.forget_deletion),
    ):
        ticket = park(5, lambda error: None)
        assert partition.waiters.produces_count + partition.waiters.deletions_count == 1
        forget(ticket)
        assert partition.waiters.produces_count + partition.waiters.deletions_count == 0
    assert partition.waiters.watcher_lists() == []
    assert partition.own_waiters().watchers_of(STABLE_END) == {}
    assert partition.waiters.watcher_lists() == []
