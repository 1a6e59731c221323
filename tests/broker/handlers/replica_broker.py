"""A broker that holds the partition t-0, as far as the handlers of its records go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.network.listening.advertised_addresses import AdvertisedAddresses
from broker.network.memory_budget import MemoryBudget
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import Deferred
from broker.network.responses.response_memory import ResponseMemory
from broker.network.routes import Handler
from broker.observability.audit import AuditLog
from broker.observability.metrics import BrokerMetrics
from broker.services import Services
from config.broker import BrokerSettings
from metadata.image import BrokerEndpoint, BrokerImage, ClusterImage, MetadataCache, PartitionImage, TopicImage
from protocol.messages.write_txn_markers import WritableTxnMarker
from protocol.schema import Request, Response
from replication.fetch_sessions import FetchSessions
from replication.marker_appender import MarkerAppender
from replication.partition import Partition
from replication.partitions import Partitions
from runtime.slices import SerialQueue
from runtime.tasks import TaskScope
from runtime.timer import Timer
from security.authorizer import EverybodyAllowed
from tests.broker.contexts import context_of
from tests.broker.quota_world import quotas_of
from tests.doubles.clock import ManualClock, Turns
from tests.replication.replica_world import ME, Replica, replica

LISTENER = "PLAINTEXT"
RACKS = {1: "a", 2: "b", 3: "c"}


class _Held:
    """Fits the look-ups of `Partitions`."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        # The log directory that may hold it was offline when it was to be opened.
        self.is_lost = False

    def find(self, topic: str, index: int) -> Partition | None:
        return self._partition if (topic, index) == ("t", 0) and not self.is_lost else None

    def find_by_id(self, topic_id: bytes, index: int) -> Partition | None:
        return self._partition if (topic_id, index) == (self._partition.topic_id, 0) and not self.is_lost else None

    def is_offline(self, topic: str, index: int) -> bool:
        return self.is_lost and (topic, index) == ("t", 0)


class ReplicaBroker:
    """`ask` plays one request through the bytes of its version."""

    def __init__(self, one: Replica, tasks: TaskScope, *, observed_topic: str = "") -> None:
        self.one = one
        self.clock = ManualClock(1_000)
        self.turns = Turns(self.clock)
        self.timer = Timer(self.clock, self.turns.call_later)
        self.metrics = BrokerMetrics(self.clock)
        self.budget = MemoryBudget(1 << 24)
        self._held = _Held(one.partition)
        self.observed_topic = observed_topic
        self.marked: list[tuple[tuple[str, int], int, bool]] = []
        serial_queue = SerialQueue(self.clock, self.turns.call_soon)
        self.services = cast(
            Services,
            SimpleNamespace(
                authorizer=EverybodyAllowed(),
                audit=AuditLog(),
                settings=BrokerSettings({}),
                broker_id=ME,
                advertised=AdvertisedAddresses(ME, ()),
                clock=self.clock,
                timer=self.timer,
                serial_queue=serial_queue,
                marker_appender=MarkerAppender(
                    cast(Partitions, self._held),
                    self._on_marker_committed,
                    observed_topic=self.observed_topic,
                    clock=self.clock,
                    timer=self.timer,
                    serial_queue=serial_queue,
                    timeout_ms=30_000,
                ),
                tasks=tasks,
                partitions=self._held,
                fetch_sessions=FetchSessions(10, random.Random(1)),
                requests=self.budget,
                response_memory=ResponseMemory(MemoryBudget(1 << 24), self.timer),
                metadata=MetadataCache(),
                metrics=self.metrics,
                quotas=quotas_of(self.clock),
            ),
        )
        self.services.metadata.publish(_image())

    def _on_marker_committed(self, partition: tuple[str, int], marker: WritableTxnMarker) -> None:
        self.marked.append((partition, marker.producer_id, marker.transaction_result))

    def lose_partition(self) -> None:
        """As after a start at which its log directory was offline."""
        self._held.is_lost = True
        self.services.metadata.publish(replace(_image(), names_by_id={self.one.partition.topic_id: "t"}))

    def forget_topic(self) -> None:
        self.services.metadata.publish(replace(_image(), topics={}))

    def context(self, version: int) -> RequestContext:
        return context_of(self.services, version, listener=LISTENER)

    def start(self, handler: Handler[Any], request: Request, version: int) -> Answer:
        decoded = type(request).decode(request.encode(version), version)
        return Answer(self, handler(decoded, self.context(version)), version)

    def turn(self) -> None:
        self.one.around.turn()
        self.turns.run()

    def wait(self, duration_ms: int) -> None:
        """Until a fetch that waits so long has ended, which may take it a sixty-fourth longer."""
        self.turns.advance(duration_ms + duration_ms // 64)


class Answer:
    """An answer that is there, or will be."""

    def __init__(self, broker: ReplicaBroker, outcome: Any, version: int) -> None:
        self._broker = broker
        self._version = version
        self._task: asyncio.Task[Any] | None = None
        self._found: list[Response] = []
        self._outcome = outcome
        if asyncio.iscoroutine(outcome):
            self._task = asyncio.get_running_loop().create_task(outcome)
        else:
            self._take()

    def _take(self) -> None:
        if isinstance(self._outcome, Deferred):
            self._outcome.then(self._found.append)
        else:
            self._found.append(self._outcome)

    async def now(self) -> Any:
        """The response as the client decodes it; None while it waits."""
        for _ in range(3):
            await asyncio.sleep(0)
            self._broker.turn()
        if self._task is not None and self._task.done():
            self._outcome, self._task = self._task.result(), None
            self._take()
        if not self._found:
            return None
        response = self._found[0]
        return type(response).decode(response.encode(self._version), self._version)

    async def when_ready(self) -> Any:
        """The response, waited for while threads work on it."""
        if self._task is not None:
            await self._task
        return await self.now()

    def abandon(self) -> None:
        """The connection is gone."""
        if isinstance(self._outcome, Deferred):
            self._outcome.abandon()

    def expedite(self) -> None:
        """The broker is stopping."""
        assert isinstance(self._outcome, Deferred)
        self._outcome.expedite()

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def _image() -> ClusterImage:
    brokers = {
        broker_id: BrokerImage(broker_id, {LISTENER: BrokerEndpoint("127.0.0.1", 9000 + broker_id)}, rack)
        for broker_id, rack in RACKS.items()
    }
    row = PartitionImage(1, 0, (1, 2), (1, 2, 3), (), 0, 1)
    return ClusterImage("c", 1, brokers, {"t": TopicImage("t", bytes(16), {0: row})}, {})


@asynccontextmanager
async def replica_broker(folder: Path, *, observed_topic: str = "", **settings: Any) -> AsyncIterator[ReplicaBroker]:
    failures: list[BaseException] = []
    tasks = TaskScope("requests", on_failure=lambda _name, error: failures.append(error))
    async with replica(folder, **settings) as one, tasks:
        yield ReplicaBroker(one, tasks, observed_topic=observed_topic)
    assert not failures
