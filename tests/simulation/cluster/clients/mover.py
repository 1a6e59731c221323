"""Somebody who moves replicas between the log directories of their brokers."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.line import Unavailable


class Mover:
    def __init__(self, world: ClusterWorld, name: str) -> None:
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._pause_s = world.random.choice((0.3, 1.0, 4.0))

    async def run(self) -> None:
        world = self._world
        while not world.is_quiet:
            await asyncio.sleep(world.random.uniform(0.5, 1.5) * self._pause_s)
            try:
                await self._move()
            except Unavailable:
                await self._wire.pause()

    async def _move(self) -> None:
        """Of whichever broker answers. A wish may be fulfilled already, or be about a partition that it does not have."""
        world, rng = self._world, self._world.random
        path = rng.choice(world.plan.log_directories)
        keys = rng.sample(list(world.all_keys()), 2)
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition]) for topic, partition in keys]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        answer = await self._wire.call(request, 2, AlterReplicaLogDirsResponse)
        codes = [row.error_code for result in answer.results for row in result.partitions]
        world.loop.note(f"move {keys} to {path}: {codes}")
        for code in codes:
            if code != ErrorCode.NONE and code not in world.not_now:
                world.report(f"{self.name}: {keys} to {path} was answered {ErrorCode(code)!r}")
