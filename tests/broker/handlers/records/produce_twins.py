"""Two brokers that get the same bytes: one has the fast path of produce, one does not. Nobody may see which is which."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.handlers.records.produce import produce
from broker.handlers.records.repeated_produce import Recognised, RepeatedProduce
from broker.network.dispatch import Frame
from broker.network.gate import Gate
from broker.network.listening.advertised_addresses import AdvertisedAddresses
from broker.network.routes import Handler
from broker.observability.audit import AuditLog
from broker.observability.metrics import BrokerMetrics
from broker.services import Services
from config.broker import BrokerSettings
from metadata.features import NEWEST_LEVELS
from metadata.image import BrokerEndpoint, BrokerImage, ClusterImage, MetadataCache, PartitionImage, TopicImage
from protocol.header import encode_request
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from security.authorizer import Authorizer, EverybodyAllowed
from tests.broker.harness import Broker, Peer
from tests.replication.replica_world import ME, Replica, replica
from tests.storage.logs import batch

LISTENER = "PLAINTEXT"
INDEXES = (0, 1)  # of the partitions that there are
OTHER = 2  # another broker
TOPIC_ID = b"t" * 16


class Watched(RepeatedProduce):
    """Counts what takes the fast path."""

    __slots__ = ()
    count = 0

    def handle(self, frame: Frame, recognised: Recognised, correlation_id: int) -> Any:
        Watched.count += 1
        return super().handle(frame, recognised, correlation_id)


class Side:
    """One broker with the partitions t-0 and t-1, and its only client."""

    def __init__(
        self, handler: Handler[Any], replicas: list[Replica], gate: Gate | None, authorizer: Authorizer
    ) -> None:
        self.broker = Broker([handler], observer=None, gate=gate, levels=NEWEST_LEVELS)
        self.replicas = replicas
        self.metrics = BrokerMetrics(self.broker.clock)
        self.broker.shared.dispatch.observer = self.metrics.requests
        held = {("t", index): each.partition for index, each in zip(INDEXES, replicas, strict=True)}
        self.metadata = metadata = MetadataCache()
        metadata.publish(image_with(TOPIC_ID))
        self.broker.shared.services = cast(
            Services,
            SimpleNamespace(
                authorizer=authorizer,
                audit=AuditLog(),
                clock=self.broker.clock,
                timer=self.broker.timer,
                metrics=self.metrics,
                metadata=metadata,
                advertised=AdvertisedAddresses(ME, ()),
                partitions=SimpleNamespace(find=lambda topic, index: held.get((topic, index))),
                dynamic_settings=SimpleNamespace(settings=BrokerSettings({})),
                tasks=self.broker.tasks,
                requests=self.broker.budget,
            ),
        )
        self.peer: Peer = self.broker.connect()

    async def settle(self) -> None:
        for each in self.replicas:
            await each.partition.log.await_appends()
            each.around.turn()
        self.peer.go_on()

    async def answered(self, count: int) -> None:
        """What stands behind records that a thread looks at is answered as well, or the connection is closed."""
        async with asyncio.timeout(20):
            while not self.peer.stream.is_closed and len(_frames(b"".join(self.peer.stream.writes))) < count:
                await asyncio.sleep(0.001)
                await self.settle()

    def seen(self) -> dict[str, object]:
        """All that anybody can tell."""
        stream = self.peer.stream
        return {
            "answers": b"".join(stream.writes),
            "closed": stream.is_closed,
            "reading": stream.is_reading,
            "logs": [_content(each) for each in self.replicas],
            "counted": list(self.metrics.samples()),
            "memory": (self.broker.budget.used_bytes, self.broker.budget.parked_bytes),
        }


def _frames(data: bytes) -> list[bytes]:
    answers = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        answers.append(data[4 : 4 + size])
        data = data[4 + size :]
    return answers


def _content(one: Replica) -> bytes:
    log = one.partition.log
    return bytes(
        log.reading.read(log.log_start_offset, limit_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
        or b""
    )


def image_with(topic_id: bytes) -> ClusterImage:
    brokers = {OTHER: BrokerImage(OTHER, {LISTENER: BrokerEndpoint("127.0.0.1", 9002)}, None)}
    row = PartitionImage(OTHER, 3, (OTHER,), (OTHER, ME), (), 0, 1)
    topic = TopicImage("t", topic_id, dict.fromkeys(INDEXES, row))
    return ClusterImage("c", OTHER, brokers, {"t": topic}, {topic_id: "t"})


@dataclass
class Twins:
    """Both brokers. The first has the fast path."""

    sides: list[Side]
    correlation_id: int = 0
    short_before: int = field(default_factory=lambda: Watched.count)

    def send(self, *frames: bytes) -> None:
        """In one piece."""
        for each in self.sides:
            each.peer.send_bytes(b"".join(frames))

    def frame(self, request: ProduceRequest, version: int, client_id: str | None = "client") -> bytes:
        self.correlation_id += 1
        return b"".join(encode_request(request, version, self.correlation_id, client_id))

    def reconnect(self) -> None:
        for each in self.sides:
            each.peer.disconnect()
            each.peer = each.broker.connect()

    def each_replica(self, act: Callable[[Replica], object]) -> None:
        for each in self.sides:
            for one in each.replicas:
                act(one)

    async def settle(self) -> None:
        """Wait for what a thread writes: after one slow write, the next ones are not done inline."""
        for each in self.sides:
            await each.settle()

    async def compare(self) -> list[bytes]:
        """The frames of all answers, which are those of the other broker."""
        await self.settle()
        first, second = (each.seen() for each in self.sides)
        assert first == second
        return _frames(cast(bytes, first["answers"]))

    @property
    def short_count(self) -> int:
        """How many requests took the fast path."""
        return Watched.count - self.short_before


@asynccontextmanager
async def twins(
    folder: Path,
    *,
    isr: tuple[int, ...] = (ME,),
    make_gate: Callable[[], Gate | None] = lambda: None,
    authorizer: Authorizer = EverybodyAllowed(),  # noqa: B008 - it has no state
    **log_settings: Any,
) -> AsyncIterator[Twins]:
    async with AsyncExitStack() as stack:
        sides = []
        for handler in (replace(produce, fast_path=Watched), produce):
            replicas = []
            for index in INDEXES:
                place = folder / f"{len(sides)}-{index}"
                place.mkdir()
                replicas.append(await stack.enter_async_context(replica(place, **log_settings)))
                replicas[-1].lead(isr=isr, replicas=isr)
            sides.append(Side(handler, replicas, make_gate(), authorizer))
        yield Twins(sides)


def on_twins(folder: Path, scenario: Callable[[Twins], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with twins(folder, **options) as both:
            await scenario(both)

    asyncio.run(run())


def request_of(
    *records: bytes | None, topic: str = "t", index: int = 0, acks: int = 1, transactional_id: str | None = None
) -> ProduceRequest:
    """Each of `records` for a partition of its own."""
    data = [PartitionProduceData(index=index + at, records=each) for at, each in enumerate(records)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(name=topic, topic_id=TOPIC_ID if topic == "t" else b"?" * 16, partition_data=data)
        ],
    )


def error_of(answer: bytes, version: int) -> int:
    response = ProduceResponse.decode(answer[5:] if version >= 9 else answer[4:], version)
    return response.responses[0].partition_responses[0].error_code


async def teach(both: Twins, version: int, **options: Any) -> None:
    """After this the connections know what repeats."""
    for _ in range(2):
        both.send(both.frame(request_of(batch("first"), **options), version))
    await both.compare()
    assert not both.short_count
