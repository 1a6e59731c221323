"""The shards of a coordinator on one broker: elections, the way to a shard, answers, periodic tasks."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.runtime.partitioner import partition_for
from protocol.errors import ErrorCode, KafkaError
from tests.coordinator.runtime.counter_world import SCAN_INTERVAL_MS, TOPIC, CounterShard, CounterWorld
from tests.coordinator.world import MemoryLog


async def test_a_key_is_refused_by_what_is_wrong_first() -> None:
    async with CounterWorld(partitions_count=None) as world:
        assert world.runtime.topic == TOPIC
        assert world.runtime.shard_of("k") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.runtime.start()
        world.runtime.on_leadership(0, 1)
        await world.settle()
        assert world.runtime.partition_for("k") is None
        assert world.runtime.shard_of("k") is ErrorCode.NOT_COORDINATOR
        world.partitions_count = 1
        assert world.context_of("k").partition == 0
        world.partitions_count = 50
        assert world.runtime.partition_for("k") == 0
        world.runtime.close()
        assert world.runtime.shard_of("k") is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_key_belongs_to_the_partition_of_its_hash() -> None:
    async with CounterWorld(partitions_count=50) as world:
        world.runtime.start()
        own = partition_for("k", 50)
        world.runtime.on_leadership(own, 0)
        await world.settle()
        assert world.context_of("k").partition == world.runtime.partition_for("k") == own
        other = next(key for key in "abcdefghij" if partition_for(key, 50) != own)
        assert world.runtime.shard_of(other) is ErrorCode.NOT_COORDINATOR


async def test_a_partition_that_is_loading_or_has_failed_is_not_served() -> None:
    async with CounterWorld() as world:
        world.log.gate = asyncio.Event()
        world.log.read_failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        await world.lead()
        assert world.runtime.shard_of("k") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert world.runtime.active_shards() == []
        assert len(world.runtime.contexts()) == 1
        world.log.gate.set()
        await world.settle()
        assert world.runtime.shard_of("k") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.runtime.active_shards() == []
        world.log.read_failure = None
        await world.lead(leader_epoch=1)
        assert [shard.epoch for shard in world.made] == [0, 1]
        assert world.runtime.active_shards() == [world.made[1]]
        assert await world.add("k") is ErrorCode.NONE


async def test_a_shard_that_stays_loaded_hears_of_each_higher_epoch_once() -> None:
    async with CounterWorld() as world:
        await world.lead(leader_epoch=3)
        await world.add("k")
        for leader_epoch in (5, 5, 4):
            await world.lead(leader_epoch)
        assert await world.add("k", publishing=True) is ErrorCode.NONE
        [shard] = world.made
        assert shard.history == ["loaded", "reelected 5"]
        assert shard.numbers["k"] == 2
        [(command, partition, epoch)] = world.carried_out
        assert (getattr(command, "epoch", None), partition, epoch) == (5, 0, 5)
        world.runtime.on_resignation(0, 4)  # of an older leadership
        assert world.runtime.active_shards() == [shard]
        world.runtime.on_resignation(0, 6)
        assert world.runtime.contexts() == []


async def test_a_shard_hears_of_a_higher_epoch_before_it_serves() -> None:
    async with CounterWorld() as world:
        world.log.gate = asyncio.Event()
        await world.lead(leader_epoch=3)
        await world.lead(leader_epoch=4)
        [shard] = world.made
        assert shard.history == []
        world.log.gate.set()
        await world.settle()
        assert shard.history == ["reelected 4", "loaded"]


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_resignation_answers_whoever_waits(is_closed: bool) -> None:
    async with CounterWorld() as world:
        await world.lead()
        world.log.is_holding = True
        waiting = [asyncio.create_task(each) for each in (world.add("k"), world.park("k"))]
        await world.settle()
        assert not any(each.done() for each in waiting)
        if is_closed:
            world.runtime.close()
        else:
            world.runtime.on_resignation(0)
        assert [await each for each in waiting] == [ErrorCode.NOT_COORDINATOR] * 2
        world.log.commit_all()  # too late to matter
        await world.advance(60_000)
        assert world.made[0].numbers["k"] == 0


async def test_the_end_of_a_transaction_reaches_the_shard_of_its_partition() -> None:
    async with CounterWorld() as world:
        await world.lead()
        world.runtime.on_transaction_ended(0, 7, committed=True)
        world.runtime.on_transaction_ended(3, 8, committed=True)  # a partition of others
        assert world.made[0].ended == [(7, True)]


async def test_a_periodic_task_goes_over_every_active_shard_until_the_end() -> None:
    async with CounterWorld(partitions_count=2) as world:
        await world.lead()
        keys = ["a", "b", "c", "d"]
        for key in keys:
            await world.add(key)
        assert all(shard.numbers for shard in world.made)
        await world.advance(1)  # the first time, at the start
        counts = [sum(shard.scanned[key] for shard in world.made) for key in keys]
        assert counts == [1] * 4
        await world.advance(SCAN_INTERVAL_MS - 1)
        await world.advance(1)
        assert [sum(shard.scanned[key] for shard in world.made) for key in keys] == [2] * 4
        world.runtime.on_resignation(0)
        await world.advance(SCAN_INTERVAL_MS)
        assert sorted(max(shard.scanned.values()) for shard in world.made) == [2, 3]
        world.runtime.close()
        await world.advance(10 * SCAN_INTERVAL_MS)
        assert sorted(max(shard.scanned.values()) for shard in world.made) == [2, 3]


def test_a_periodic_task_that_fails_runs_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in one expiry does not end all of them for good."""

    async def scenario() -> None:
        async with CounterWorld() as world:
            await world.lead()
            await world.add("k")
            with monkeypatch.context() as patched:
                patched.setattr(CounterShard, "scan", lambda *_: 1 // 0)
                await world.advance(1)
            assert world.made[0].scanned["k"] == 0
            await world.advance(SCAN_INTERVAL_MS)
            assert world.made[0].scanned["k"] == 1

    asyncio.run(scenario())
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


async def test_a_new_leader_holds_what_the_log_holds() -> None:
    log = MemoryLog()
    async with CounterWorld(log) as world:
        await world.lead()
        for _ in range(3):
            await world.add("k")
    async with CounterWorld(log) as world:
        await world.lead(leader_epoch=1)
        assert world.made[0].numbers == {"k": 3}


def test_keys_that_hash_to_another_partition_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """The topic was given more partitions: nobody finds them here any more."""

    async def scenario() -> None:
        log = MemoryLog()
        async with CounterWorld(log) as world:
            await world.lead()
            for key in ("a", "b", "c", "d"):
                assert await world.add(key) is ErrorCode.NONE
        async with CounterWorld(log, partitions_count=2) as world:
            world.runtime.start()
            world.runtime.on_leadership(0, 1)
            await world.settle()

    with caplog.at_level("ERROR"):
        asyncio.run(scenario())
    (said,) = [record.getMessage() for record in caplog.records]
    elsewhere = [key for key in ("a", "b", "c", "d") if partition_for(key, 2) == 1]
    assert 0 < len(elsewhere) < 4
    assert f"topic={TOPIC} partition=0 partitions=2 keys={len(elsewhere)} examples={','.join(elsewhere)}" in said
