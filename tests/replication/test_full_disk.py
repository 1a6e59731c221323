"""A follower whose disk is full copies nothing, and goes on by itself when there is room."""

from __future__ import annotations

import asyncio

from protocol.messages.fetch import FetchRequest
from replication.followers.follower import NO_ROOM_PAUSE_MS
from replication.partition import Partition
from storage.log.removal.log_truncation import resume
from tests.async_tests import played_by
from tests.replication.leader_world import FollowerWorld, play
from tests.storage.logs import all_values

FLOOR_BYTES = 1 << 20


def measured(world: FollowerWorld, partition: Partition, free_bytes: int) -> None:
    world.environment.space.on_measured(free_bytes, 0)
    partition.log.on_room_changed()


@played_by(play)
async def test_below_the_floor_nothing_is_fetched(world: FollowerWorld) -> None:
    led = world.source.lead()
    led.append("a", "b")
    partition = await world.partition()
    world.follow(partition)
    await world.copied(partition, led)
    world.environment.space.floor_bytes = FLOOR_BYTES
    measured(world, partition, FLOOR_BYTES - 1)
    led.append("c")
    world.source.wake()
    await asyncio.sleep(3 * NO_ROOM_PAUSE_MS / 1000)
    assert partition.log.log_end_offset == 2
    fetches = len(world.source.asked(FetchRequest))
    await asyncio.sleep(60)
    assert len(world.source.asked(FetchRequest)) == fetches, "nothing is fetched to be thrown away"
    measured(world, partition, 2 * FLOOR_BYTES)
    await world.copied(partition, led)
    assert await all_values(partition.log) == led.values()


@played_by(play)
async def test_a_write_that_the_disk_refuses(world: FollowerWorld) -> None:
    """No floor has warned: the copied batch is cut off again, and copied once more when the log goes on."""
    led = world.source.lead()
    led.append("a", "b")
    partition = await world.partition()
    world.follow(partition)
    await world.copied(partition, led)
    world.storage.capacity_bytes = world.storage.used_bytes + 30
    led.append("c" * 100)
    led.append("d")
    world.source.wake()
    await world.until(lambda: partition.log.is_halted)
    assert partition.log.log_end_offset == 2
    assert partition.log.failure is None
    assert await all_values(partition.log) == led.values()[:2]
    await asyncio.sleep(10)
    world.storage.capacity_bytes = None
    await resume(partition.log)
    await world.copied(partition, led)
    assert await all_values(partition.log) == led.values()
