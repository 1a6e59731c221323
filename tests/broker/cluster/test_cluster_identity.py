"""Data of one cluster and the ZooKeeper of another one, or of none: whose broker is it?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import StartError
from tests.oracle.zookeeper import ZooKeeper
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop
from tests.simulation.store import SimulatedEnsemble


async def paths_in(ensemble: SimulatedEnsemble) -> list[str]:
    return await ensemble.open_session().children("/")


async def a_stopped_broker(loop: SimLoop) -> tuple[ClusterWorld, str]:
    """And its cluster's id. What it holds has a topic."""
    world = ClusterWorld(loop, (1,))
    await world.start()
    await world.create_topic("orders", replicas=1)
    cluster_id = world.live[1].cluster_id
    await world.machines[1].stop()
    return world, cluster_id


def move_to(world: ClusterWorld, loop: SimLoop) -> SimulatedEnsemble:
    """Another ZooKeeper, which knows nothing; the broker keeps its disk."""
    world.ensemble = SimulatedEnsemble(SimClock(loop))
    world.reconfigure()
    return world.ensemble


@simulated(1)
async def test_an_empty_zookeeper_does_not_get_the_data_of_a_cluster(loop: SimLoop) -> None:
    world, cluster_id = await a_stopped_broker(loop)
    first = world.ensemble
    empty = move_to(world, loop)
    before = await paths_in(empty)
    assert not await world.machines[1].start()
    reason = world.machines[1]._reason
    assert "zookeeper.connect=ensemble:2181 has no cluster" in reason
    assert "/data/meta.properties" in reason and cluster_id in reason
    assert await paths_in(empty) == before, "nothing was made there"
    world.ensemble = first
    world.reconfigure()
    await world.start()
    assert world.live[1].cluster_id == cluster_id
    assert "orders" in world.live[1].metadata.image.topics


@simulated(2)
async def test_the_zookeeper_of_another_cluster_is_refused_with_both_ids(loop: SimLoop) -> None:
    world, cluster_id = await a_stopped_broker(loop)
    other = ClusterWorld(loop, (2,))
    other.network = world.network
    other.machines[2] = other.machine(2, "host2")
    await other.start()
    world.ensemble = other.ensemble
    world.reconfigure()
    assert not await world.machines[1].start()
    reason = world.machines[1]._reason
    for part in (cluster_id, other.live[2].cluster_id, "/data/meta.properties", "zookeeper.connect=ensemble:2181"):
        assert part in reason
    await other.machines[2].stop()


@simulated(3)
async def test_an_empty_directory_begins_a_cluster_and_others_join_it(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1, 2))
    await asyncio.wait_for(world.start(), 60)
    assert len({broker.cluster_id for broker in world.live.values()}) == 1


@pytest.mark.oracle
def test_apache_kafka_refuses_it_too_with_the_same_exit_code(tmp_path: Path) -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    makers: list[Callable[[str, Path], Broker]] = [
        lambda connect, folder: KafkaServer(connect, broker_id=1, folder=folder),
        lambda connect, folder: Barnabas({}, folder, zookeeper=connect, broker_id=1),
    ]
    with ZooKeeper() as zookeeper:
        for index, make in enumerate(makers):
            folder = tmp_path / str(index)
            folder.mkdir()
            connect = f"{zookeeper.connect}/cluster-{index}"
            with make(connect, folder):
                pass
            mistyped = make(f"{connect}0", folder)
            with pytest.raises(StartError):
                mistyped.start(attempts=1)
            assert mistyped.process is not None
            assert mistyped.process.returncode == 1
            with make(connect, folder):
                pass
