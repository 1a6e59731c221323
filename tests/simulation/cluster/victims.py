"""Which brokers something is happening to, so that two faults do not pull at one; and how they come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.machine import End, Machine


class Victims:
    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._busy: set[int] = set()

    def take(self, count: int = 1) -> list[int]:
        """Running brokers that nothing happens to yet; the caller's until `release`."""
        free = [broker_id for broker_id in self._world.running() if broker_id not in self._busy]
        chosen = self._world.random.sample(free, min(count, len(free)))
        self._busy.update(chosen)
        return chosen

    def take_these(self, broker_ids: Iterable[int]) -> list[int]:
        """All of them, or nobody when one is down or somebody else's."""
        chosen = list(broker_ids)
        if not self._busy.isdisjoint(chosen) or not set(chosen) <= set(self._world.running()):
            return []
        self._busy.update(chosen)
        return chosen

    def release(self, broker_ids: Iterable[int]) -> None:
        self._busy.difference_update(broker_ids)

    async def boot(self, machine: Machine) -> None:
        """Until the broker serves, whatever ends it before."""
        while not machine.is_running and not await machine.start():
            ended = await machine.ended()
            if ended.how not in (End.FAILED, End.STOPPED):
                return
            await asyncio.sleep(1)

    async def down_time(self) -> None:
        """Shorter and longer than a session."""
        await asyncio.sleep(self._world.random.choice((0.0, 0.5, 2.0, 8.0)) * self._world.random.uniform(0.5, 1.0))
