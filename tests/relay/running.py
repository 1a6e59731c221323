"""A relay in this process, and a client of its cluster, for tests over a real broker."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from client.admin import topics as topic_steps
from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.connector import Connector
from client.event_loop.producer import AsyncProducer
from client.event_loop.reader import PartitionReader
from client.reading.positions import Positions, ReadRecord
from config.relay import RelaySettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from protocol.records.record import Record
from relay.relaying.relay import Relay
from relay.rules.rule import Rule
from relay.surroundings import RelaySurroundings
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address

PATIENCE_S = 60
TIMEOUT_MS = 10_000
RANDOM = random.Random(1)
FEW = {
    "barnabas.relay.partitions": "2",
    "barnabas.relay.session.timeout.ms": "6000",
    "barnabas.relay.near.ms": "1000",
    "barnabas.relay.rules.interval.ms": "1000",
}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def open_cluster(servers: str, name: str) -> AsyncClusterClient:
    addresses = []
    for each in servers.split(","):
        host, _, port = each.rpartition(":")
        addresses.append(Address(host, int(port)))
    return AsyncClusterClient(
        Connector(OsNetwork()), addresses, name, RANDOM, request_timeout_ms=5_000, api_timeout_ms=TIMEOUT_MS
    )


class RelayClient:
    """Makes topics and rules, produces, and reads what was committed."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.cluster = open_cluster(servers, "test")
        self._producer = AsyncProducer(self.cluster, wall_ms, RANDOM)

    async def close(self) -> None:
        await self._producer.close()
        await self.cluster.close()

    async def create(
        self,
        *topics: str,
        partitions: int = 1,
        replicas: int = 1,
        at: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create topics; `at` is the broker of the only partition."""
        place = [] if at is None else [CreatableReplicaAssignment(partition_index=0, broker_ids=[at])]
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in (settings or {}).items()]
        wanted = {
            topic: CreatableTopic(
                name=topic,
                num_partitions=-1 if place else partitions,
                replication_factor=-1 if place else replicas,
                assignments=place,
                configs=configs,
            )
            for topic in topics
        }
        async with asyncio.timeout(PATIENCE_S):
            while wanted:
                created = await self.cluster.run(topic_steps.create(wanted, TIMEOUT_MS, validate_only=False))
                wanted = {topic: each for topic, each in wanted.items() if is_being_deleted(created[topic])}
        await self.cluster.topics(topics)

    async def delete(self, topic: str) -> None:
        assert await self.cluster.run(topic_steps.delete([topic], TIMEOUT_MS)) == {topic: None}

    async def rule(self, rule: Rule, relay: Relay) -> None:
        """Write a rule, and return when the relay has it."""
        await self.send(relay.names.rules, rule.to_json(), rule.source.encode())
        await until(lambda: relay.session is not None and rule in relay.session.rules.values())

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        delivery = await self._producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp_ms)
        await delivery

    async def send_many(self, topic: str, records: Sequence[tuple[bytes, list[tuple[str, bytes | None]]]]) -> None:
        """Write values with headers into the first partition of a topic."""
        made = [Record(0, wall_ms(), None, value, headers) for value, headers in records]
        await (await self._producer.send_many(topic, 0, made))

    async def read(self, topic: str, count: int) -> list[ReadRecord]:
        """Return the first records of a topic, when there are so many."""
        reader = PartitionReader(self.cluster, RANDOM, Positions())
        found: list[ReadRecord] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                partitions = await self.cluster.partition_count(topic)
                reader.assign({(topic, each): None for each in range(partitions)})
                while len(found) < count:
                    found += await reader.poll(200)
        finally:
            await reader.close()
        return found

    async def count(self, topic: str) -> int:
        """Return how many committed records a topic has now."""
        reader = PartitionReader(self.cluster, RANDOM, Positions(), max_wait_ms=50)
        try:
            partitions = await self.cluster.partition_count(topic)
            reader.assign({(topic, each): None for each in range(partitions)})
            return sum([len(await reader.poll(100)) for _ in range(3)])
        finally:
            await reader.close()


@asynccontextmanager
async def relay_client(servers: str) -> AsyncIterator[RelayClient]:
    client = RelayClient(servers)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def running_relay(
    servers: str, settings: Mapping[str, str] | None = None, surroundings: RelaySurroundings | None = None
) -> AsyncIterator[Relay]:
    """A relay that knows its rules, until the end of the block: then it stops in order."""
    relay = Relay(
        RelaySettings({**FEW, **(settings or {})}),
        surroundings or RelaySurroundings(),
        lambda name: open_cluster(servers, name),
    )
    task = asyncio.get_running_loop().create_task(relay.run())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.wait_for, task, PATIENCE_S)
        stack.callback(relay.stop)
        await until(lambda: relay.is_ready or task.done())
        yield relay


def is_being_deleted(error: KafkaError | None) -> bool:
    """Whether a topic of this name is about to go. Raises KafkaError for another reason why one was not created."""
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error
    return error is not None


def headers_of(found: ReadRecord) -> dict[str, bytes | None]:
    return dict(found.record.headers)


async def until(is_so: Callable[[], bool]) -> None:
    """Return when a condition on a relay holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  a relay tells nobody
            await asyncio.sleep(0.02)
