"""Makes the rules, takes one away now and then and makes it again, and deletes a target that a rule still names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from client.event_loop.producer import AsyncProducer
from protocol.errors import KafkaError
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.line import Unavailable
from tests.simulation.relays.plan import FRAGILE, FRAGILE_OUT, RULES_TOPIC, SOON

if TYPE_CHECKING:
    from tests.simulation.relays.world import RelayWorld


class RuleOperator:
    def __init__(self, world: RelayWorld, name: str) -> None:
        self.name = name
        self._world = world
        self._line = world.line(name)
        self._cluster = ObservedCluster(world, name, NoObserver())
        self._producer: AsyncProducer | None = None

    async def run(self) -> None:
        world, rng = self._world, self._world.random
        for source in sorted(world.rules):
            if source != SOON:  # clients have begun before
                await self._write(source)
        await asyncio.sleep(rng.uniform(0.0, 4.0))
        await self._write(SOON)
        if FRAGILE in world.rules:
            await asyncio.sleep(rng.uniform(3.0, 12.0))
            await self._delete()
        while not world.is_quiet:
            await asyncio.sleep(rng.uniform(2.0, 15.0))
            await self._write(SOON, is_there=False)
            world.count("rules taken away")
            await asyncio.sleep(rng.uniform(0.0, 3.0))
            await self._write(SOON)
        if self._producer is not None:
            await self._producer.close()
        await self._cluster.close()

    async def _write(self, source: str, *, is_there: bool = True) -> None:
        """Until it is written."""
        world = self._world
        value = world.rules[source].to_json() if is_there else None
        while True:
            try:
                if self._producer is None:
                    self._producer = AsyncProducer(self._cluster, world.wall_ms, world.random)
                await (await self._producer.send(RULES_TOPIC, value, source.encode(), partition=0))
                return
            except KafkaError as error:
                world.loop.note(f"{self.name}: {error}")
                if self._producer is not None:
                    await self._producer.close()
                self._producer = None

    async def _delete(self) -> None:
        """Until a broker has said that it is."""
        request = DeleteTopicsRequest(topic_names=[FRAGILE_OUT], timeout_ms=5_000)
        while True:
            try:
                answer = await self._line.call(request, 5, DeleteTopicsResponse)
            except Unavailable:
                await self._line.pause()
                continue
            if answer.responses[0].error_code == 0:
                self._world.count("targets deleted")
                return
            await self._line.pause()
