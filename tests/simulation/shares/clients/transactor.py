"""A producer that commits some of its transactions and aborts the others."""

from __future__ import annotations

import asyncio

from client.errors import AbortableError, FatalError
from client.event_loop.producer import AsyncProducer, Delivered
from client.producing.core import ProducerLimits
from protocol.errors import KafkaError
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.shares.plan import TRANSACTIONAL
from tests.simulation.shares.world import ShareWorld

ABORTS = 0.3
LIMITS = ProducerLimits(delivery_timeout_ms=40_000, transaction_timeout_ms=8_000)


class Transactor:
    def __init__(self, world: ShareWorld, name: str) -> None:
        self.name = name
        self._world = world
        self._cluster = ObservedCluster(world, name, NoObserver())
        self._producer: AsyncProducer | None = None
        self._counter = 0

    async def run(self) -> None:
        world, rng = self._world, self._world.random
        while not world.is_quiet:
            await asyncio.sleep(min(rng.expovariate(1 / 1.5), 5.0))
            await self._transaction()
        while not await self._transaction():
            pass  # what is open hides what comes behind it
        if self._producer is not None:
            await self._producer.close()
        await self._cluster.close()

    async def _transaction(self) -> bool:
        """Whether one was committed."""
        world, rng = self._world, self._world.random
        is_aborted = rng.random() < ABORTS and not world.is_quiet
        values = [f"{self.name}#{self._counter + n}" for n in range(rng.randint(1, 8))]
        self._counter += len(values)
        is_asked_for = False
        try:
            producer = self._producer = self._producer or await self._begun()
            producer.begin()
            sent = [await producer.send(TRANSACTIONAL, value.encode(), b"k%d" % rng.randrange(20)) for value in values]
            delivered = await asyncio.gather(*sent)
            await asyncio.sleep(rng.choice((0.0, 0.1, 1.0)))
            if is_aborted:
                await producer.abort()
                world.count("records aborted", len(values))
            else:
                is_asked_for = True
                await producer.commit()
                self._committed(delivered, values)
        except (FatalError, AbortableError, KafkaError) as error:
            world.loop.note(f"{self.name}: {error}")
            if self._producer is not None:
                await self._producer.close()
            self._producer = None
            await asyncio.sleep(1.0)
        else:
            if not is_aborted:
                return True
        if not is_asked_for:
            world.fates.was_aborted(values)
        await asyncio.sleep(0.5)
        return False

    def _committed(self, delivered: list[Delivered], values: list[str]) -> None:
        self._world.count("records committed", len(values))
        self._world.fates.was_committed(
            ((each.topic, each.partition), each.offset, value)
            for each, value in zip(delivered, values, strict=True)
            if each.offset >= 0
        )

    async def _begun(self) -> AsyncProducer:
        producer = AsyncProducer(
            self._cluster, self._world.wall_ms, self._world.random, transactional_id=self.name, limits=LIMITS
        )
        await producer.initialize()
        return producer
