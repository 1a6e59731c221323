"""The epoch of the finalized features, as the node and the broker's own version have it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.cluster.cluster_features import ClusterFeatures
from config.inter_broker_version import InterBrokerVersion
from metadata.features import NEWEST_LEVELS, NO_EPOCH, NO_LEVELS, CurrentLevels, FeatureLevels, UnsupportedFeaturesError
from metadata.store import znodes
from metadata.store.port import Store
from metadata.store.znodes import FinalizedFeatures
from runtime.clock import SystemClock
from runtime.tasks import TaskScope
from tests.async_tests import played_by
from tests.simulation.store import SimulatedEnsemble

ENABLED, DISABLED = FinalizedFeatures().encode(), FinalizedFeatures(is_enabled=False).encode()


class World:
    """A broker that follows the node, and another session of the store."""

    def __init__(self, version: str, tasks: TaskScope) -> None:
        ensemble = SimulatedEnsemble(SystemClock())
        self.levels = CurrentLevels()
        self.changes: list[FeatureLevels] = []
        self.levels.subscribe(self.changes.append)
        self.unsupported: list[str] = []
        self.features = ClusterFeatures(
            ensemble.connect(), InterBrokerVersion.parse(version), tasks, self.levels, self.unsupported.append
        )
        self.store: Store = ensemble.connect()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(1000):
            if condition():
                return
            await asyncio.sleep(0)
        assert condition()

    async def becomes(self, epoch: int) -> None:
        await self.until(lambda: self.levels.epoch == epoch)


def run(scenario: Callable[[World], Awaitable[None]], version: str = "3.9") -> None:
    async def program() -> None:
        tasks = TaskScope("test")
        await scenario(World(version, tasks))
        await tasks.close()

    asyncio.run(program())


@played_by(run, gives=1)
async def test_the_epoch_follows_the_node(world: World) -> None:
    store = world.store
    await world.features.start()
    assert world.levels.epoch == NO_EPOCH
    await store.create(znodes.FEATURE, DISABLED)
    await store.set(znodes.FEATURE, ENABLED)
    await world.becomes(1)
    await store.set(znodes.FEATURE, DISABLED)
    await world.becomes(NO_EPOCH)
    await store.set(znodes.FEATURE, ENABLED)
    await world.becomes(3)
    await store.delete(znodes.FEATURE)
    await world.becomes(NO_EPOCH)
    await store.create(znodes.FEATURE, ENABLED)
    await world.becomes(0)
    assert world.changes == []


@played_by(run, gives=1)
async def test_levels_are_published_as_they_change(world: World) -> None:
    await world.store.create(znodes.FEATURE, FinalizedFeatures({"group.version": 1}).encode())
    await world.features.start()
    assert world.levels.levels == FeatureLevels(group=1)
    await world.store.set(znodes.FEATURE, FinalizedFeatures(NEWEST_LEVELS.above_zero).encode())
    await world.becomes(1)
    await world.store.set(znodes.FEATURE, FinalizedFeatures(NEWEST_LEVELS.above_zero, is_enabled=False).encode())
    await world.becomes(NO_EPOCH)
    assert world.changes == [FeatureLevels(group=1), NEWEST_LEVELS, NO_LEVELS]


@pytest.mark.parametrize("levels", [{"group.version": 2}, {"metadata.version": 1}, {"share.version": -1}])
@played_by(run, gives=1)
async def test_a_level_that_is_not_supported_ends_the_broker(world: World, levels: dict[str, int]) -> None:
    await world.features.start()
    await world.store.create(znodes.FEATURE, FinalizedFeatures(levels).encode())
    await world.until(lambda: bool(world.unsupported))
    assert all(name in world.unsupported[0] for name in levels)
    with pytest.raises(UnsupportedFeaturesError):
        await world.features.start()


@pytest.mark.parametrize(("version", "epoch"), [("3.9", 0), ("2.7-IV0", 0), ("2.6", NO_EPOCH), ("0.11.0", NO_EPOCH)])
@played_by(lambda version, program: run(program, version), "version", gives=1)
async def test_a_broker_of_an_older_version_knows_no_node(world: World, epoch: int) -> None:
    await world.store.create(znodes.FEATURE, ENABLED)
    await world.features.start()
    assert world.levels.epoch == epoch


@played_by(run, gives=1)
async def test_a_node_that_cannot_be_read_has_no_epoch(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.store.create(znodes.FEATURE, b"[")
    await world.features.start()
    assert world.levels.epoch == NO_EPOCH
    assert "feature versions unreadable" in caplog.text
