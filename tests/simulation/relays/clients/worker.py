"""Works on what the relay brings to the target of the retries, and fails at much of it: that goes to the retry topic again,
with the attempts counted, with the headers as they came, or without any."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from client.committing import OffsetAndMetadata
from client.event_loop.producer import AsyncProducer
from client.event_loop.reader import PartitionReader
from client.reading.positions import Positions
from protocol.errors import KafkaError
from protocol.records.record import Record
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.relays.facts import ATTEMPT, header_of, text_of
from tests.simulation.relays.plan import AGAIN, WORK

if TYPE_CHECKING:
    from tests.simulation.relays.world import RelayWorld

FAILS = 0.5
POLL_MS = 500


class Worker:
    """It commits nothing, so it reads everything once."""

    def __init__(self, world: RelayWorld, name: str) -> None:
        self.name = name
        self._world = world
        self._how = world.random.choice(("counts", "copies", "forgets"))
        self._cluster = ObservedCluster(world, name, NoObserver())

    async def run(self) -> None:
        world = self._world
        reader = PartitionReader(self._cluster, world.random, Positions(), max_wait_ms=300)
        reader.assign({key: OffsetAndMetadata(0) for key in world.keys_of([WORK])})
        producer = AsyncProducer(self._cluster, world.wall_ms, world.random)
        while not world.is_quiet:
            for each in await reader.poll(POLL_MS):
                if world.random.random() < FAILS and not world.is_quiet:
                    await self._fail(producer, each.record)
        await reader.close()
        await producer.close()
        await self._cluster.close()

    async def _fail(self, producer: AsyncProducer, record: Record) -> None:
        base, _, hop = text_of(record).partition("/")
        value = f"{base}/{int(hop or '0') + 1}"
        self._world.count("attempts that failed")
        try:
            delivery = await producer.send(AGAIN, value.encode(), record.key, headers=self._headers(record))
            await asyncio.wait((delivery,))
        except KafkaError as error:
            self._world.loop.note(f"{self.name}: {error}")

    def _headers(self, record: Record) -> list[tuple[str, bytes | None]]:
        if self._how == "forgets":
            return [("own", None)]
        if self._how == "copies":
            return list(record.headers)
        count = int(header_of(record, ATTEMPT) or "0") + 1
        return [*(each for each in record.headers if each[0] != ATTEMPT), (ATTEMPT, b"%d" % count)]
