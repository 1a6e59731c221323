"""Logs of a cluster's brokers move to other log directories while they are written to and while their leader changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from replication.followers.fetchers import Fetchers
from storage.log.partition_log import PartitionLog
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop, simulate

TOPIC = "orders"
DIRECTORIES = ("/data", "/disk2")


def log_of(world: ClusterWorld, broker_id: int) -> PartitionLog:
    found = world.live[broker_id].services.partitions.find(TOPIC, 0)
    assert found is not None
    return found.log


def place_of(world: ClusterWorld, broker_id: int) -> str:
    return log_of(world, broker_id).directory.rpartition("/")[0]


async def move(world: ClusterWorld, broker_id: int) -> str:
    """Have the broker move its log to the other directory; that one."""
    here = place_of(world, broker_id)
    [target] = [each for each in DIRECTORIES if each != here]
    row = AlterReplicaLogDir(path=target, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])])
    answer = await world.ask(broker_id, AlterReplicaLogDirsRequest(dirs=[row]), 2, AlterReplicaLogDirsResponse)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
    return target


async def started(loop: SimLoop) -> ClusterWorld:
    world = ClusterWorld(loop, log_dirs=",".join(DIRECTORIES))
    await world.start()
    await world.create_topic(TOPIC, assignment=(1, 2, 3), retention_ms="-1")  # the records are of 1970
    return world


@simulated(1)
async def test_a_follower_leaves_its_leader_for_the_exchange_and_comes_back(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("stop_following", "follow"):
        original = getattr(Fetchers, name)

        def noted(self: Fetchers, *args: Any, original: Any = original, name: str = name) -> Any:
            calls.append(name)
            return original(self, *args)

        monkeypatch.setattr(Fetchers, name, noted)
    world = await started(loop)
    assert (await world.produce(TOPIC, b"one"))[0] is ErrorCode.NONE
    calls.clear()
    target = await move(world, 2)
    await world.until(lambda: place_of(world, 2) == target)
    await world.until(lambda: calls == ["stop_following", "follow"])
    assert await world.produce(TOPIC, b"two") == (ErrorCode.NONE, 1)
    await world.until(lambda: log_of(world, 2).log_end_offset == 2)


@pytest.mark.parametrize("seed", range(8))
def test_logs_move_under_load_while_their_leader_changes(seed: int) -> None:
    async def program(loop: SimLoop) -> None:
        world = await started(loop)
        values: list[bytes] = []
        is_over = False

        async def produce() -> None:
            while not is_over:
                value = b"%06d" % len(values) + loop.random.randbytes(loop.random.randrange(2000))
                try:
                    error, _ = await world.produce(TOPIC, value)
                except OSError:  # the leader stops: written or not
                    await asyncio.sleep(0.05)
                    continue
                if error is ErrorCode.NONE:
                    values.append(value)

        producing = asyncio.get_running_loop().create_task(produce())
        for turn in range(6):
            targets = {broker_id: await move(world, broker_id) for broker_id in world.live}
            if turn % 2:
                leader = world.leader_of(TOPIC)
                if loop.random.random() < 0.5:
                    await world.machines[leader].stop()
                else:
                    world.machines[leader].crash()
                    await world.until(lambda leader=leader: world.leader_of(TOPIC) != leader)  # type: ignore[misc]
                await world.start(leader)
                targets.pop(leader)  # a start goes on with the move, but from what it finds
            await world.until(lambda targets=targets: all(place_of(world, each) == at for each, at in targets.items()))  # type: ignore[misc]
            await world.until(lambda: world.isr_of(TOPIC) == {1, 2, 3})
            await world.until(lambda: all(not broker.logs.future.logs for broker in world.live.values()))
        is_over = True
        await producing
        assert len(values) > 5
        await world.until(lambda: len({log_of(world, each).log_end_offset for each in world.live}) == 1)
        logs = [log_of(world, each) for each in world.live]
        contents = [
            bytes(await log.reading.read_cold(0, limit_offset=log.log_end_offset, max_bytes=1 << 30, at_least_one=True))
            for log in logs
        ]
        assert contents[0] == contents[1] == contents[2]
        places = [contents[0].find(value) for value in values]
        assert -1 not in places
        assert places == sorted(places)

    simulate(seed, program)
