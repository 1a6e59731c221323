"""The epoch of the finalized features, as the node and the broker's own version have it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.cluster.cluster_features import NO_EPOCH, ClusterFeatures
from config.inter_broker_version import InterBrokerVersion
from metadata.store import znodes
from metadata.store.port import Store
from metadata.store.znodes import FinalizedFeatures
from runtime.clock import SystemClock
from runtime.tasks import TaskScope
from tests.async_tests import played_by
from tests.simulation.store import SimulatedEnsemble

ENABLED, DISABLED = FinalizedFeatures().encode(), FinalizedFeatures(is_enabled=False).encode()


def run(scenario: Callable[[ClusterFeatures, Store], Awaitable[None]], version: str = "3.9") -> None:
    async def program() -> None:
        ensemble = SimulatedEnsemble(SystemClock())
        tasks = TaskScope("test")
        await scenario(
            ClusterFeatures(ensemble.connect(), InterBrokerVersion.parse(version), tasks), ensemble.connect()
        )
        await tasks.close()

    asyncio.run(program())


async def becomes(features: ClusterFeatures, epoch: int) -> None:
    for _ in range(1000):
        if features.epoch == epoch:
            return
        await asyncio.sleep(0)
    assert features.epoch == epoch


@played_by(run, gives=2)
async def test_the_epoch_follows_the_node(features: ClusterFeatures, store: Store) -> None:
    await features.start()
    assert features.epoch == NO_EPOCH
    await store.create(znodes.FEATURE, DISABLED)
    await store.set(znodes.FEATURE, ENABLED)
    await becomes(features, 1)
    await store.set(znodes.FEATURE, DISABLED)
    await becomes(features, NO_EPOCH)
    await store.set(znodes.FEATURE, ENABLED)
    await becomes(features, 3)
    await store.delete(znodes.FEATURE)
    await becomes(features, NO_EPOCH)
    await store.create(znodes.FEATURE, ENABLED)
    await becomes(features, 0)


@pytest.mark.parametrize(("version", "epoch"), [("3.9", 0), ("2.7-IV0", 0), ("2.6", NO_EPOCH), ("0.11.0", NO_EPOCH)])
@played_by(lambda version, program: run(program, version), "version", gives=2)
async def test_a_broker_of_an_older_version_knows_no_node(features: ClusterFeatures, store: Store, epoch: int) -> None:
    await store.create(znodes.FEATURE, ENABLED)
    await features.start()
    assert features.epoch == epoch


@played_by(run, gives=2)
async def test_a_node_that_cannot_be_read_has_no_epoch(
    features: ClusterFeatures, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await store.create(znodes.FEATURE, b"[")
    await features.start()
    assert features.epoch == NO_EPOCH
    assert "feature versions unreadable" in caplog.text
