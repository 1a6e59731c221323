"""A service of ours consumes, processes and produces with transactions, as members of a group, while its broker is killed: each
input becomes one output. The same against Apache Kafka, which is not killed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from client.errors import AbortableError
from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.connector import Connector
from client.event_loop.group_member import GroupMember
from client.event_loop.producer import AsyncProducer
from client.event_loop.reader import PartitionReader
from client.membership.contract import MemberSettings
from client.reading.positions import Positions
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from protocol.topic_partition import TopicPartition
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address
from tests.oracle import java
from tests.oracle.kafka import ApacheKafka
from tests.robustness.process import BrokerProcess

COUNT = 200
PATIENCE_S = 90
RANDOM = random.Random(1)
SETTINGS = MemberSettings(session_timeout_ms=6_000, heartbeat_interval_ms=500, max_poll_interval_ms=30_000)
FEW = 300  # bytes of a fetch: many transactions


def cluster_of(bootstrap: str, name: str) -> AsyncClusterClient:
    host, _, port = bootstrap.rpartition(":")
    return AsyncClusterClient(
        Connector(OsNetwork()), [Address(host, int(port))], name, RANDOM, request_timeout_ms=5_000
    )


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Service:
    """One process of the service, until it is cancelled."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._clusters = cluster_of(bootstrap, f"{name} in"), cluster_of(bootstrap, f"{name} out")
        self._producer = AsyncProducer(self._clusters[1], wall_ms, RANDOM, transactional_id=name)
        self._reader = PartitionReader(self._clusters[0], RANDOM, Positions(max_partition_bytes=FEW))
        self._member: GroupMember | None = None
        self._is_working = asyncio.Lock()

    async def run(self) -> None:
        await self._producer.initialize()
        self._member = member = GroupMember(self._clusters[0], "services", ["in"], self, RANDOM, SETTINGS)
        try:
            while True:
                member.polled()
                async with self._is_working:
                    await self._step(member)
        finally:
            await member.close()
            await self._reader.close()
            await self._producer.close()
            for cluster in self._clusters:
                await cluster.close()

    async def _step(self, member: GroupMember) -> None:
        records = await self._reader.poll(200)
        if not records:
            return
        try:
            self._producer.begin()
            for each in records:
                await self._producer.send("out", each.record.value)
            keys = {(each.topic, each.partition) for each in records}
            offsets = {key: found for key in keys if (found := self._reader.positions.offset(key)) is not None}
            await self._producer.send_offsets(member.membership, offsets)
            await self._producer.commit()
        except AbortableError:
            await self._producer.abort()
            await self.assigned(list(self._reader.positions.partitions))

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        assert self._member is not None
        committed = await self._member.committed(partitions)
        self._reader.assign({key: committed.get(key) for key in partitions})

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        async with self._is_working:
            self._reader.drop(partitions)


async def tour(bootstrap: str, disturb: Callable[[], Awaitable[None]]) -> None:
    cluster = cluster_of(bootstrap, "test")
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        for name in ("in", "out")
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    created = await cluster.send_to_any(request, CreateTopicsResponse)
    assert [topic.error_code for topic in created.topics] == [0, 0]
    producer = AsyncProducer(cluster, wall_ms, RANDOM)
    sent = [f"{number}".encode() for number in range(COUNT)]
    deliveries = [await producer.send("in", value, value) for value in sent]
    await producer.flush()
    assert {each.result().partition for each in deliveries} == {0, 1}
    services = [asyncio.create_task(Service(bootstrap, f"service {number}").run()) for number in range(2)]
    reader = PartitionReader(cluster, RANDOM, Positions())
    reader.assign({("out", 0): None, ("out", 1): None})
    found: list[bytes | None] = []
    disturbed_at = [COUNT // 5, COUNT // 2]
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < COUNT:
            found += [each.record.value for each in await reader.poll(500)]
            assert not any(service.done() for service in services), services
            if disturbed_at and len(found) >= disturbed_at[0]:
                disturbed_at.pop(0)
                await disturb()
    for service in services:
        service.cancel()
    await asyncio.wait(services)
    found += [each.record.value for each in await reader.poll(500)]
    assert sorted(each or b"" for each in found) == sorted(sent)
    await reader.close()
    await producer.close()
    await cluster.close()


@pytest.mark.timeout(180)
async def test_each_input_becomes_one_output_while_the_broker_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:

        async def kill() -> None:
            broker.kill()
            await asyncio.to_thread(broker.start)

        await tour(broker.address, kill)


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_each_input_becomes_one_output_of_apache_kafka() -> None:
    if reason := java.missing():
        pytest.skip(reason)

    async def nothing() -> None:
        """It is not killed."""

    with ApacheKafka({"group.initial.rebalance.delay.ms": "0"}) as kafka:
        await tour(kafka.bootstrap_servers, nothing)
