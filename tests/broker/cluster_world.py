"""Several real brokers on one simulated ensemble and network, and a client that speaks to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.server import Broker
from client.event_loop.connection import OutgoingConnection
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.record import Record, encode_batch
from protocol.schema import Request, Response
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop
from tests.simulation.machine import Machine
from tests.simulation.network import SimNetwork
from tests.simulation.store import SimulatedEnsemble

R = TypeVar("R", bound=Response)

PORT = 9092
PATIENCE_S = 60.0


class ClusterWorld:
    """`start` some brokers by id, then ask them."""

    def __init__(self, loop: SimLoop, broker_ids: tuple[int, ...] = (1, 2, 3), **settings: str) -> None:
        self.loop = loop
        self.network = SimNetwork(loop)
        self.ensemble = SimulatedEnsemble(SimClock(loop), lambda: loop.random.uniform(0.0, 0.002))
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.machines = {broker_id: self.machine(broker_id, f"host{broker_id}") for broker_id in broker_ids}

    def machine(self, broker_id: int, host: str) -> Machine:
        """A place for a broker, which is not started."""
        return Machine(self.loop, self.network, host, self.settings_of(broker_id, host), ensemble=self.ensemble)

    def settings_of(self, broker_id: int, host: str) -> dict[str, str]:
        return {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{host}:{PORT}",
            "log.dirs": "/data",
            "zookeeper.connect": "ensemble:2181",
            "zookeeper.session.timeout.ms": "6000",
            "auto.create.topics.enable": "false",
            "default.replication.factor": "3",
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            "controlled.shutdown.retry.backoff.ms": "200",
            **self._settings,
        }

    def reconfigure(self, **settings: str) -> None:
        """The brokers, all of them stopped, start with these settings next, and find their disks as they were."""
        self._settings |= {name.replace("_", "."): value for name, value in settings.items()}
        for broker_id, stopped in list(self.machines.items()):
            self.machines[broker_id] = machine = self.machine(broker_id, stopped.name)
            machine.storage = stopped.storage

    async def start(self, *broker_ids: int) -> None:
        served = [self.machines[broker_id].start() for broker_id in broker_ids or self.machines]
        async with asyncio.timeout(PATIENCE_S):
            assert all(await asyncio.gather(*served)), [machine._reason for machine in self.machines.values()]
        await self.until(
            lambda: all(set(broker.metadata.image.brokers) >= set(self.live) for broker in self.live.values())
        )

    @property
    def live(self) -> dict[int, Broker]:
        """The brokers that serve, by id."""
        return {
            broker_id: machine.broker
            for broker_id, machine in self.machines.items()
            if machine.is_serving and machine.broker is not None
        }

    @property
    def controller_id(self) -> int:
        [active] = [broker_id for broker_id, broker in self.live.items() if broker.services.controller.is_active]
        return active

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """As a live broker sees it."""
        found = next(iter(self.live.values())).metadata.image.partition(topic, partition)
        return -1 if found is None else found.leader

    async def until(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(patience_s):
            while not holds():  # noqa: ASYNC110  polled on virtual time
                await asyncio.sleep(0.01)

    async def client(self, broker_id: int) -> OutgoingConnection:
        return await OutgoingConnection.open(self.network.node("client"), f"host{broker_id}", PORT, "test")

    async def ask(self, broker_id: int, request: Request, version: int, response_type: type[R]) -> R:
        client = await self.client(broker_id)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await client.send(request, version, response_type)
        finally:
            client.close()

    async def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 3, assignment: Sequence[int] = (), **configs: str
    ) -> None:
        """`assignment` are the replicas of a topic with one partition."""
        rows = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(assignment))] if assignment else []
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if assignment else partitions,
            replication_factor=-1 if assignment else replicas,
            assignments=rows,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        answer = await self.ask(self.controller_id, request, 7, CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        await self.until(
            lambda: all(
                broker.metadata.image.partition(name, index) is not None
                for broker in self.live.values()
                for index in range(partitions)
            )
        )

    async def produce(self, topic: str, value: bytes, partition: int = 0, acks: int = -1) -> tuple[ErrorCode, int]:
        """(error, offset) from whoever leads; asked again, as a client does, of one that does not."""
        data = PartitionProduceData(index=partition, records=encode_batch([Record(0, 0, None, value)]))
        request = ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=20_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.ask(self.leader_of(topic, partition), request, 9, ProduceResponse)
                row = answer.responses[0].partition_responses[0]
                if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    return ErrorCode(row.error_code), row.base_offset
                await asyncio.sleep(0.1)

    async def metadata(self, broker_id: int, *topics: str) -> MetadataResponse:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
        return await self.ask(broker_id, request, 9, MetadataResponse)

    def isr_of(self, topic: str, partition: int = 0) -> set[int]:
        """As the leader has it."""
        leader = self.live[self.leader_of(topic, partition)]
        found = leader.services.partitions.find(topic, partition)
        assert found is not None
        return set(found.assignment.isr)
