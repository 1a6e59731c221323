"""What one user does on the cluster: connections with the user's own login, so that the user's ACLs decide.

    await cluster.run(steps)                 administration, as `client.admin` has it
    async with cluster.reading(offsets)      records of given partitions, over connections of their own
    await cluster.producer()                 one for all requests of the user, made at the first
    await cluster.recent.get(...)            answers that cost the brokers much, kept for some seconds
    await cluster.blocking(work)             what `tools` has in blocking form, in a thread

Errors: as of `client.event_loop.cluster_client`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from client.blocking.credentials import CREDENTIALS
from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.producer import AsyncProducer
from client.event_loop.reader import MAX_BYTES, MAX_WAIT_MS, PartitionReader
from client.event_loop.settings import cluster_client_of, connector_of
from client.producing.core import ProducerLimits
from client.reading.positions import Positions, Reset
from protocol.records.compression import Compression
from web.cluster.recent import RecentAnswers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from client.admin.steps import Steps
    from client.cluster_view import Topic
    from client.committing import OffsetAndMetadata
    from client.settings.values import ClientSettings
    from protocol.topic_partition import TopicPartition
    from web.surroundings import Surroundings

T = TypeVar("T")
PRODUCER_LIMITS: Final = ProducerLimits(batch_size_bytes=128 << 10, delivery_timeout_ms=30_000)
"""Batches for streams of records; an HTTP request waits no longer than that."""
PRODUCER_MEMORY_BYTES: Final = 256 << 20
"""More than the largest record. What waits in it is bounded by who sends: so much for each request."""


class UserCluster:
    """`settings` have the user's login, `name` is the user as people know it. Closed by `web.cluster.users`."""

    def __init__(self, settings: ClientSettings, surroundings: Surroundings, name: str) -> None:
        """Raises SettingsError."""
        self.name = name
        self._is_closed = False
        self.settings = settings
        self._surroundings = surroundings
        self._connector = connector_of(settings, surroundings.network, surroundings.randomness)
        self.client = self.new_client()
        self.recent = RecentAnswers(surroundings.clock)
        self._producer: tuple[AsyncClusterClient, AsyncProducer] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether its user has gone."""
        return self._is_closed

    async def close(self) -> None:
        await self.recent.close()
        await self._close_producer()
        await self.client.close()
        self._is_closed = True
        self._forget_login()

    async def _close_producer(self) -> None:
        if self._producer is not None:
            (cluster, producer), self._producer = self._producer, None
            await producer.close()
            await cluster.close()

    def new_client(self) -> AsyncClusterClient:
        """Return a client with connections of its own, for what waits at brokers; the caller closes it."""
        return cluster_client_of(self.settings, self._connector, self._surroundings.randomness)

    async def run(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Return the result of administration."""
        return await self.client.run(steps, timeout_ms)

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return the topics of these names that exist; None asks for all."""
        return await self.client.topics(names)

    @asynccontextmanager
    async def reading(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        *,
        is_committed: bool = False,
        reset: Reset = Reset.EARLIEST,
        max_wait_ms: int = MAX_WAIT_MS,
        max_bytes: int = MAX_BYTES,
    ) -> AsyncIterator[PartitionReader]:
        """Read partitions from these offsets, over connections of its own; without an offset where `reset` says. `max_bytes`
        is for each leader."""
        client = self.new_client()
        positions = Positions(reset, is_committed, min(max_bytes, 1 << 20))
        reader = PartitionReader(
            client, self._surroundings.randomness, positions, max_wait_ms=max_wait_ms, max_bytes=max_bytes
        )
        try:
            reader.assign(offsets)
            yield reader
        finally:
            await reader.close()
            await client.close()

    async def producer(self) -> AsyncProducer:
        """Return the producer of all requests of this user. One that may do nothing any more is replaced: the user may have got
        the rights by now. How large a record may be is the caller's to say, and the topic's."""
        if self._producer is not None and self._producer[1].is_fatal:
            await self._close_producer()
        if self._producer is None:
            cluster = self.new_client()
            clock = self._surroundings.clock
            producer = AsyncProducer(
                cluster,
                clock.wall_ms,
                self._surroundings.randomness,
                limits=PRODUCER_LIMITS,
                compression=Compression.NONE,
                buffer_memory_bytes=PRODUCER_MEMORY_BYTES,
                max_record_bytes=PRODUCER_MEMORY_BYTES,
            )
            self._producer = cluster, producer
        return self._producer[1]

    async def blocking(self, work: Callable[[ClientSettings], T]) -> T:
        """Return the result of work that blocks, and makes its own clients of the settings."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._surroundings.threads, work, self.settings)
        finally:
            if self._is_closed:
                self._forget_login()

    def _forget_login(self) -> None:
        """Blocking clients share what they keep of a login; no secret stays there when its user has gone."""
        if self.settings.login is not None:
            CREDENTIALS.forget(self.settings.login)
