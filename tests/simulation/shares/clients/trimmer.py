"""Deletes the oldest records of a topic now and then, whether or not they are finished."""

from __future__ import annotations

import asyncio

from tests.simulation.clients.admin import Admin
from tests.simulation.line import Unavailable
from tests.simulation.shares.world import ShareWorld

PAUSE_S = 10.0
PART = 0.6


class Trimmer:
    def __init__(self, world: ShareWorld, name: str, admin: Admin, topic: str) -> None:
        self.name = name
        self._world = world
        self._admin = admin
        self._topic = topic

    async def run(self) -> None:
        world, rng = self._world, self._world.random
        while not world.is_quiet:
            await asyncio.sleep(rng.uniform(0.5, 1.5) * PAUSE_S)
            key = rng.choice([key for key in world.keys if key[0] == self._topic])
            try:
                await self._admin.delete_records(key, round(world.logs.view(key).committed_end * PART))
            except Unavailable:
                world.loop.note(f"{self.name}: nobody has deleted records of {key}")
