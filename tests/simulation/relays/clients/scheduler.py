"""Produces what is to come later, as any client would: now and then with an id, a new time or a cancellation for one it has
produced before, and with headers that are wrong. Some do it in transactions, and abort some of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from client.errors import AbortableError, FatalError
from client.event_loop.producer import AsyncProducer, Delivered
from client.producing.core import ProducerLimits
from protocol.errors import KafkaError
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.relays.expected import DAY_MS
from tests.simulation.relays.facts import CANCEL, DELAY, DELIVER_AT, EXPIRES_AT, ID
from tests.simulation.relays.plan import AGAIN

if TYPE_CHECKING:
    from tests.simulation.relays.world import RelayWorld

Headers = list[tuple[str, bytes | None]]
KEYS_COUNT = 6
KEPT_IDS = 12
ABORTS = 0.3
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
# (weight, from, to): how far ahead records are due.
_SPANS = (
    (4, -5 * SECOND_MS, 0), (5, 1, 300), (10, 300, 8 * SECOND_MS), (4, 10 * SECOND_MS, 50 * SECOND_MS),
    (2, 61 * SECOND_MS, 100 * SECOND_MS), (2, 2 * HOUR_MS, 20 * HOUR_MS), (1, 2 * DAY_MS, 30 * DAY_MS),
    (1, 33 * DAY_MS, 360 * DAY_MS),
)  # fmt: skip
_WRONG: tuple[tuple[str, bytes], ...] = (
    (DELIVER_AT, b"tomorrow"), (DELIVER_AT, b"9223372036854775807"), (DELAY, b"-1"), (DELAY, b"1e3"),
    (DELAY, b"%d" % (400 * DAY_MS)), (CANCEL, b""),
)  # fmt: skip


class Scheduler:
    """Of one source topic."""

    def __init__(self, world: RelayWorld, name: str, topic: str, *, is_transactional: bool = False) -> None:
        rng = world.random
        self.name = name
        self._world = world
        self._topic = topic
        self._is_transactional = is_transactional
        self._is_observed = True
        """Whether what is acknowledged may be read at once: nobody has open transactions in the topic."""
        self._cluster = ObservedCluster(world, name, NoObserver())
        self._pause_s = rng.choice((1.0, 3.0, 6.0))
        self._producer: AsyncProducer | None = None
        self._counter = 0
        self._ids: list[tuple[bytes, bytes]] = []  # with their keys

    def unobserved(self) -> Scheduler:
        self._is_observed = False
        return self

    async def run(self) -> None:
        world, rng = self._world, self._world.random
        while not world.is_quiet:
            await asyncio.sleep(min(rng.expovariate(1 / self._pause_s), 5.0))
            await self._produce(rng.randint(1, 6))
        await self._produce(2)  # when nothing is wrong any more it must work
        if self._producer is not None:
            await self._producer.close()
        await self._cluster.close()

    # --- producing ---

    async def _produce(self, count: int) -> None:
        """Until the records are there, or their transaction is aborted."""
        while True:
            try:
                if self._producer is None:
                    self._producer = await self._begun()
                if self._is_transactional:
                    await self._transaction(self._producer, count)
                else:
                    await self._send(self._producer, count)
                return
            except (FatalError, AbortableError, KafkaError) as error:
                self._world.loop.note(f"{self.name}: {error}")
                if self._producer is not None:
                    await self._producer.close()
                self._producer = None
                await asyncio.sleep(1.0)

    async def _begun(self) -> AsyncProducer:
        world = self._world
        producer = AsyncProducer(
            self._cluster,
            world.wall_ms,
            world.random,
            transactional_id=self.name if self._is_transactional else None,
            limits=ProducerLimits(delivery_timeout_ms=40_000, transaction_timeout_ms=8_000),
        )
        if self._is_transactional:
            await producer.initialize()
        return producer

    async def _transaction(self, producer: AsyncProducer, count: int) -> None:
        producer.begin()
        await self._send(producer, count)
        if self._world.random.random() < ABORTS and not self._world.is_quiet:
            await producer.abort()
            self._world.count("records aborted", count)
        else:
            await producer.commit()

    async def _send(self, producer: AsyncProducer, count: int) -> None:
        deliveries = []
        for _ in range(count):
            value, key, headers = self._next()
            delivery = await producer.send(self._topic, value.encode(), key, headers=headers)
            if not self._is_transactional and self._is_observed:
                delivery.add_done_callback(self._acknowledged)
            deliveries.append(delivery)
        await asyncio.gather(*deliveries)

    def _acknowledged(self, delivery: asyncio.Future[Delivered]) -> None:
        if delivery.cancelled() or delivery.exception() is not None:
            return
        found = delivery.result()
        offsets = self._world.known.acknowledged_s.setdefault((found.topic, found.partition), {})
        offsets[found.offset] = self._world.loop.time()

    # --- records ---

    def _next(self) -> tuple[str, bytes, Headers]:
        rng = self._world.random
        value = f"{self.name}#{self._counter}"
        self._counter += 1
        key = b"k%d" % rng.randrange(KEYS_COUNT)
        headers: Headers = [("own", rng.choice((None, b"", b"x" * 40)))]
        self._world.count("records produced")
        if self._topic == AGAIN:
            return value, key, headers
        what = rng.random()
        if what < 0.06:
            return value, key, [*headers, rng.choice(_WRONG)]
        if what < 0.12:
            due_ms = self._due_ms()
            expires_ms = due_ms + rng.choice((-1_000, 0, 500, 3_000))
            return value, key, [*headers, (DELIVER_AT, b"%d" % due_ms), (EXPIRES_AT, b"%d" % expires_ms)]
        if what < 0.30 and self._ids:
            id_, key = rng.choice(self._ids)
            return value, key, [*headers, (ID, id_), (CANCEL, b"")]
        if what < 0.50 and self._ids:
            id_, key = rng.choice(self._ids)
            return value, key, [*headers, (ID, id_), *self._times()]
        if what < 0.75:
            id_ = b"id-%d" % self._counter  # of several clients, and in several topics
            self._ids = [*self._ids, (id_, key)][-KEPT_IDS:]
            return value, key, [*headers, (ID, id_), *self._times()]
        return value, key, [*headers, *self._times()]

    def _due_ms(self) -> int:
        rng = self._world.random
        [(_, least, most)] = rng.choices(_SPANS, [weight for weight, _, _ in _SPANS])
        due_ms = self._world.wall_ms() + rng.randint(least, most)
        return due_ms - due_ms % rng.choice((1, 1, 1_000))  # many are due in the same millisecond

    def _times(self) -> Headers:
        rng = self._world.random
        what = rng.random()
        if what < 0.1:
            return []  # as the rule says
        due_ms = self._due_ms()
        if what < 0.4:
            return [(DELAY, b"%d" % max(due_ms - self._world.wall_ms(), 0))]
        return [(DELIVER_AT, b"%d" % due_ms)]
