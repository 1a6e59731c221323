"""The share coordinator over a log in memory: who is served, periodic work, deleted topics."""

from __future__ import annotations

import logging

import pytest

from coordinator.share.outcomes import ShareOutcome
from coordinator.share.shard import StateWrite
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import ShareCoordinatorSettings
from protocol.errors import ErrorCode
from tests.coordinator.share.share_driver import batch
from tests.coordinator.share.share_world import KEY, ORDERS, ShareWorld, ignored, image_of, outcomes_of


def write_of(*offsets: int) -> StateWrite:
    return StateWrite(1, 5, -1, -1, tuple(batch(offset, offset) for offset in offsets))


async def test_only_the_leader_of_the_key_serves_it() -> None:
    async with ShareWorld() as world:
        coordinator = world.coordinator
        ask = [
            lambda done: coordinator.initialize(KEY, 1, 0, done),
            lambda done: coordinator.read(KEY, 5, done),
            lambda done: coordinator.read_summary(KEY, done),
            lambda done: coordinator.write(KEY, write_of(1), done),
            lambda done: coordinator.delete(KEY, done),
        ]
        assert {outcome[:2] for outcome in outcomes_of(*ask)} == {
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, "Share coordinator is not available.")
        }
        coordinator.start()
        [first, *_] = outcomes_of(*ask)
        assert first == ShareOutcome(
            ErrorCode.NOT_COORDINATOR, f"Unable to initialize share group state: {ErrorCode.NOT_COORDINATOR.message}"
        )
        coordinator.runtime.on_leadership(coordinator.partition_for("g:AQEBAQEBAQEBAQEBAQEBAQ:0") or 0, 0)
        assert [each.error for each in outcomes_of(ask[0])] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        await world.settle()
        assert [each.error for each in outcomes_of(*ask)] == [ErrorCode.NONE] * 5


async def test_another_coordinator_continues() -> None:
    async with ShareWorld() as world:
        await world.lead()
        coordinator = world.coordinator
        coordinator.initialize(KEY, 1, 0, ignored)
        coordinator.read(KEY, 5, ignored)
        world.log.is_holding = True
        lost: list[ShareOutcome] = []
        coordinator.write(KEY, write_of(1), lost.append)
        world.log.is_holding = False
        coordinator.runtime.on_resignation(coordinator.partition_for("g:AQEBAQEBAQEBAQEBAQEBAQ:0") or 0)
        assert [each.error for each in lost] == [ErrorCode.NOT_COORDINATOR]
        async with ShareWorld(log=world.log) as other:
            await other.lead(1)
            [found, fenced] = outcomes_of(
                lambda done: other.coordinator.read(KEY, 6, done),
                lambda done: other.coordinator.write(KEY, write_of(3), done),
            )
            assert found.snapshot is not None
            assert found.snapshot.batches == (batch(1, 1),)  # nobody was told that it failed for good
            assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_write_that_is_not_committed_in_time() -> None:
    async with ShareWorld() as world:
        await world.lead()
        world.coordinator.initialize(KEY, 1, 0, ignored)
        world.log.is_holding = True
        late: list[ShareOutcome] = []
        world.coordinator.write(KEY, write_of(1), late.append)
        await world.advance(5_000)
        assert [each.error for each in late] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        world.log.commit_all()
        assert len(late) == 1


async def test_idle_and_redundant_states_and_those_of_deleted_topics() -> None:
    settings = ShareCoordinatorSettings(prune_interval_ms=60_000)
    async with ShareWorld(settings) as world:
        await world.lead()
        coordinator = world.coordinator
        keys = [ShareKey(f"g{index}", ORDERS, 0) for index in range(8)]
        for key in keys:
            coordinator.initialize(key, 1, 0, ignored)
        await world.advance(360_000)
        assert world.deleted  # each key has a newer snapshot, written again
        assert all(offset * 2 == world.log.end_offsets[partition] for partition, offset in world.deleted.items())
        world.without_orders()
        assert [each.shard.durable_state() for each in coordinator.runtime.contexts()] == [{}] * 4
        world.change(image_of(0, 0, 0, 0))
        coordinator.initialize(keys[0], 1, 0, ignored)
        for partition in range(4):
            coordinator.runtime.on_resignation(partition)
        world.without_orders()  # while nobody coordinates
        await world.lead()
        assert any(each.shard.durable_state() for each in coordinator.runtime.contexts())
        await world.advance(300_000)
        assert [each.shard.durable_state() for each in coordinator.runtime.contexts()] == [{}] * 4


async def test_a_trouble_of_every_write_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coordinator.share_observation")
    async with ShareWorld() as world:
        await world.lead()
        world.coordinator.initialize(KEY, 1, 0, ignored)
        world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        for offset in range(50):
            world.coordinator.write(KEY, write_of(offset), ignored)
        await world.advance(10_000)
        world.coordinator.write(KEY, write_of(1), ignored)
        lines = [record.getMessage() for record in caplog.records]
        assert [line.partition("left_out=")[2].split()[0] for line in lines] == ["0", "49"]
        assert "error=NOT_ENOUGH_REPLICAS" in lines[0]
