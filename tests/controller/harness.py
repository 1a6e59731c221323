"""Controllers over a simulated ensemble or the embedded store, with brokers that only note what they are told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from config.broker import BrokerSettings
from controller.controller import Controller, ControllerIdentity
from controller.producer_ids import ProducerIds
from controller.requests.channels import BrokerChannel, ControlResponse, InProcessChannel
from controller.requests.request_batch import ControlRequest
from metadata import delta
from metadata.admin.metadata_wait import wait_for_image
from metadata.admin.replication_policy import ReplicationPolicy, StrictReplication
from metadata.admin.topic_admin import TopicAdmin
from metadata.image import ClusterImage, MetadataCache
from metadata.store import registration, znodes
from metadata.store.embedded import EmbeddedStore
from metadata.store.port import Store
from metadata.store.store_file import FILE_NAME
from metadata.store.znodes import BrokerRegistration, RegisteredEndpoint
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.tasks import TaskScope
from tests.simulation.store import SimulatedEnsemble

R = TypeVar("R")


class Line(InProcessChannel):
    """To a fake broker, which may be out of reach."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self._broker = broker

    async def send(self, request: ControlRequest) -> ControlResponse:
        if not self._broker.is_reachable:
            self._broker.refused_count += 1
            raise ConnectionRefusedError
        return await super().send(request)


PATIENCE_MS = 10_000


class FakeBroker:
    """Takes control requests as a broker would, and answers with the errors it was given."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.metadata = MetadataCache("cluster")
        self.requests: list[ControlRequest] = []
        self.deletion_error = ErrorCode.NONE
        self.leader_error = ErrorCode.NONE
        self.is_reachable = True
        self.refused_count = 0

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self.requests.append(LeaderAndIsrRequest.decode(request.encode(7), 7))
        return LeaderAndIsrResponse(
            error_code=ErrorCode.NONE,
            topics=[
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=self.leader_error)
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ],
        )

    async def on_update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        self.requests.append(UpdateMetadataRequest.decode(request.encode(8), 8))
        image, _ = delta.apply(self.metadata.image, request)
        self.metadata.publish(image)
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self.requests.append(StopReplicaRequest.decode(request.encode(4), 4))
        rows = [
            StopReplicaPartitionError(
                topic_name=topic.topic_name,
                partition_index=state.partition_index,
                error_code=self.deletion_error if state.delete_partition else ErrorCode.NONE,
            )
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=rows)

    def received(self, kind: type[R]) -> list[R]:
        return [request for request in self.requests if isinstance(request, kind)]


class Member:
    """One broker with its controller. `settings` are by wire name."""

    def __init__(
        self,
        broker_id: int,
        store: Store,
        brokers: dict[int, FakeBroker],
        tasks: TaskScope,
        *,
        rack: str | None = None,
        settings: dict[str, str] | None = None,
        policy: ReplicationPolicy | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.store = store
        self.broker = FakeBroker(broker_id)
        self.metadata = self.broker.metadata
        self.rack = rack
        self.settings = BrokerSettings.from_sources({"broker.id": str(broker_id), **(settings or {})}, {}, {})
        self.epoch = -1
        brokers[broker_id] = self.broker

        def connect(known: BrokerRegistration) -> BrokerChannel:
            return Line(brokers[known.broker_id])

        self.controller = Controller(
            ControllerIdentity(broker_id, "PLAINTEXT", connect),
            store,
            self.metadata,
            lambda: self.settings,
            clock=SystemClock(),
            randomness=random.Random(broker_id),
            tasks=tasks,
        )
        self.topic_admin = TopicAdmin(
            store, self.metadata, lambda: self.settings, random.Random(broker_id), policy or StrictReplication()
        )
        self.producer_ids = ProducerIds(lambda: self.controller.allocate_producer_ids(broker_id))

    async def register(self, port: int | None = None) -> None:
        await registration.ensure_persistent_paths(self.store)
        endpoint = RegisteredEndpoint("PLAINTEXT", "localhost", 9092 + self.broker_id if port is None else port)
        host_id = self.settings.barnabas_host_id
        description = BrokerRegistration(self.broker_id, (endpoint,), 1_000, rack=self.rack, host_id=host_id)
        self.epoch = await registration.register_broker(self.store, self.store.session().session_id, description)

    async def start(self) -> None:
        await self.register()
        await self.controller.start()

    async def shows(self, predicate: Callable[[ClusterImage], bool]) -> None:
        shown = await wait_for_image(self.metadata, predicate, PATIENCE_MS)
        assert shown, f"broker {self.broker_id} does not show it: {self.metadata.image}"

    async def quiet(self) -> None:
        """Everything queued for the controller has been done: the request below goes through its queue."""
        await self.controller.allocate_producer_ids(self.broker_id)


@asynccontextmanager
async def embedded_member(folder: Path, **options: object) -> AsyncIterator[Member]:
    """A cluster of one over the embedded store."""
    queue = OsDiskQueue(str(folder), asyncio.get_running_loop())
    async with TaskScope("test") as tasks:
        store = await EmbeddedStore.open(str(folder / FILE_NAME), queue, SystemClock(), tasks)
        member = Member(0, store, {}, tasks, **options)  # type: ignore[arg-type]
        await member.start()
        await member.shows(lambda image: 0 in image.brokers)
        try:
            yield member
        finally:
            await member.controller.close()
            await store.close()
            await queue.close()


class Cluster:
    """Members over one simulated ensemble."""

    def __init__(self, tasks: TaskScope) -> None:
        self.ensemble = SimulatedEnsemble(SystemClock())
        self.brokers: dict[int, FakeBroker] = {}
        self.members: dict[int, Member] = {}
        self.ensemble_store = self.ensemble.connect()  # an operator's
        self._tasks = tasks

    async def add(self, broker_id: int, **options: object) -> Member:
        member = Member(broker_id, self.ensemble.connect(), self.brokers, self._tasks, **options)  # type: ignore[arg-type]
        self.members[broker_id] = member
        await member.start()
        await member.shows(lambda image: broker_id in image.brokers)
        return member

    @property
    def active(self) -> Member:
        [active] = [member for member in self.members.values() if member.controller.is_active]
        return active

    def epoch(self, broker_id: int) -> int:
        """As the broker knows it, -1 for one that is not there."""
        return self.members[broker_id].epoch if broker_id in self.members else -1

    async def settled(self) -> None:
        """One member controls, and has done everything that it knows of."""
        async with asyncio.timeout(PATIENCE_MS / 1_000):
            while True:
                await asyncio.sleep(0)
                owner = await self.ensemble_store.exists(znodes.CONTROLLER)
                active = [member for member in self.members.values() if member.controller.is_active]
                if owner is not None and [each.store.session().session_id for each in active] == [
                    owner.ephemeral_owner
                ]:
                    with suppress(KafkaError):
                        await active[0].quiet()
                        return

    async def remove(self, broker_id: int) -> None:
        """As a broker that is stopped."""
        member = self.members.pop(broker_id)
        await member.controller.close()
        await member.store.close()


@asynccontextmanager
async def cluster(*broker_ids: int, **options: object) -> AsyncIterator[Cluster]:
    async with TaskScope("test") as tasks:
        made = Cluster(tasks)
        for broker_id in broker_ids:
            await made.add(broker_id, **options)
        for member in made.members.values():
            await member.shows(lambda image: set(image.brokers) == set(broker_ids))
        try:
            yield made
        finally:
            for broker_id in list(made.members):
                await made.remove(broker_id)
            await made.ensemble_store.close()
