"""A source broker by hand on a simulated network, and a follower's partitions with real logs on a simulated disk.

The source answers Fetch (with real sessions), ListOffsets and OffsetForLeaderEpoch from lists of batches. It notes every
request and can be told to refuse, to keep silent, to corrupt, to lose its connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from client.event_loop.connector import Connector
from config.inter_broker_version import InterBrokerVersion
from config.topic import LogConfig
from protocol.errors import ErrorCode
from protocol.frame import FrameReader
from protocol.header import decode_request_header, encode_response
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.offset_for_leader_epoch import EpochEndOffset as EpochAnswer
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from replication.dependencies import PartitionContext
from replication.fetch_sessions import FetchItem, FetchSessions, ResolvedFetch
from replication.followers.fetcher import FetcherDependencies
from replication.followers.fetchers import Fetchers
from replication.followers.leader_endpoint import FetchSettings
from replication.partition import Partition, WakeUps
from replication.throttle import ReplicationQuota
from runtime.network.transport import Address, Connection
from runtime.tasks import TaskScope
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_environment import LogEnvironment
from storage.log.opening import open_log
from storage.segments.open_segments import OpenSegments
from storage.segments.ranges_in_flight import RangesInFlight
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork
from tests.storage.logs import batch, config, values_of

R = TypeVar("R", bound=Request)

SOURCE = 2
ME = 1
PORT = 9092
WAIT_MS = 500
BACKOFF_MS = 1000
REQUESTS: dict[int, type[Request]] = {
    request.api_key: request for request in (FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest)
}


@dataclass
class Led:
    """What the source holds of a partition."""

    leader_epoch: int = 0
    topic_id: bytes = bytes(16)
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    start_offset: int = 0
    high_watermark: int = 0
    error: ErrorCode = ErrorCode.NONE
    corrupts: bool = False

    @property
    def end_offset(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.start_offset

    def append(self, *values: str, epoch: int | None = None, commit: bool = True, **options: Any) -> None:
        epoch = self.leader_epoch if epoch is None else epoch
        base = self.end_offset
        if epoch > self.epochs.latest_epoch:
            self.epochs.assign(epoch, base)
        content = bytes(batch(*values, base_offset=base, partition_leader_epoch=epoch, **options))
        self.batches.append((base, base + len(values) - 1, content))
        if commit:
            self.high_watermark = self.end_offset

    def delete_before(self, offset: int) -> None:
        """Whole batches go, and the log may begin within one."""
        self.batches = [each for each in self.batches if each[1] >= offset]
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)

    def values(self) -> list[tuple[int, str]]:
        return [each for _, _, content in self.batches for each in values_of(content) if each[0] >= self.start_offset]


class Source:
    """The source broker. `requests` are (request, version), in order of arrival."""

    def __init__(self, loop: SimLoop, network: SimNetwork, name: str = "source") -> None:
        self.loop = loop
        self.name = name
        self.network = network
        self.led: dict[TopicPartition, Led] = {}
        self.requests: list[tuple[Request, int]] = []
        self.connections: list[Connection] = []
        self.is_silent = False
        self.top_error = ErrorCode.NONE
        self.max_batches = 1 << 30
        self.answers_take_s = 0.0  # from its first bytes to its last
        self.sessions = FetchSessions(10, loop.random)
        self._parked: list[Callable[[], None]] = []

    async def listen(self) -> None:
        await self.network.node(self.name).listen(self.name, PORT, lambda: _SourceConnection(self))

    def lead(self, topic: str = "t", partition: int = 0, **more: Any) -> Led:
        led = self.led[topic, partition] = Led(**more)
        return led

    def asked(self, kind: type[R]) -> list[R]:
        return [request for request, _ in self.requests if isinstance(request, kind)]

    def versions(self, kind: type[Request]) -> set[int]:
        return {version for request, version in self.requests if isinstance(request, kind)}

    def wake(self) -> None:
        """What waits for records looks again."""
        parked, self._parked = self._parked, []
        for look in parked:
            look()

    def lose_connections(self) -> None:
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    # --- answering ---

    def on_request(self, request: Request, version: int, answer: Callable[[Response], None]) -> None:
        self.requests.append((request, version))
        if self.is_silent:
            return
        match request:
            case FetchRequest():
                self._fetch(request, version, answer)
            case ListOffsetsRequest():
                answer(self._offsets(request))
            case OffsetForLeaderEpochRequest():
                answer(self._epochs(request))

    def _fetch(self, request: FetchRequest, version: int, answer: Callable[[Response], None]) -> None:
        if self.top_error != ErrorCode.NONE:
            error, self.top_error = self.top_error, ErrorCode.NONE
            answer(FetchResponse(error_code=error, responses=[]))
            return
        resolved = self.sessions.resolve(request, version, 0)
        if resolved.error != ErrorCode.NONE:
            answer(FetchResponse(error_code=resolved.error, responses=[]))
            return
        is_over = False

        def look(*, at_last: bool = False) -> None:
            nonlocal is_over
            if is_over:
                return
            rows = [(item, self._row(item)) for item in resolved.session.items.values()]
            if at_last or not rows or any(_ends_waiting(row) for _, row in rows):
                is_over = True
                answer(self._answer(resolved, rows))
            else:
                self._parked.append(look)

        self.loop.call_later(request.max_wait_ms / 1000, lambda: look(at_last=True))
        look()

    def _answer(self, resolved: ResolvedFetch, rows: list[tuple[FetchItem, PartitionData]]) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for item, row in rows:
            if self.sessions.include(resolved, item, row, len(row.records or b"")):
                topics.append(FetchableTopicResponse(topic=item.topic, topic_id=item.topic_id, partitions=[row]))
        return FetchResponse(session_id=resolved.session_id, responses=topics)

    def _led_by(self, item: FetchItem) -> Led | None:
        for (topic, partition), led in self.led.items():
            is_topic = topic == item.topic if item.topic else led.topic_id == item.topic_id
            if is_topic and partition == item.partition:
                return led
        return None

    def _row(self, item: FetchItem) -> PartitionData:
        row = PartitionData(
            partition_index=item.partition, error_code=0, high_watermark=-1, log_start_offset=-1, records=b""
        )
        led = self._led_by(item)
        row.error_code = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if led is None else _refusal(led, item.current_leader_epoch)
        )
        if led is None or row.error_code:
            return row
        row.high_watermark, row.log_start_offset = led.high_watermark, led.start_offset
        if item.last_fetched_epoch >= 0:
            epoch, end_offset = led.epochs.end_offset_for(item.last_fetched_epoch, led.end_offset)
            if end_offset < 0:
                row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return row
            if epoch < item.last_fetched_epoch or end_offset < item.fetch_offset:
                row.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return row
        if not led.start_offset <= item.fetch_offset <= led.end_offset:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return row
        found = [content for _, last, content in led.batches if last >= item.fetch_offset]
        records = bytearray(b"".join(found[: self.max_batches]))
        if led.corrupts and records:
            records[-1] ^= 0xFF
        row.records = bytes(records)
        return row

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                led = self.led[topic.name, asked.partition_index]
                offset = led.end_offset if asked.timestamp == -1 else led.start_offset
                error = _refusal(led, asked.current_leader_epoch)
                rows.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=error, offset=-1 if error else offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                led = self.led[topic.topic, asked.partition]
                epoch, end_offset = led.epochs.end_offset_for(asked.leader_epoch, led.end_offset)
                error = _refusal(led, asked.current_leader_epoch)
                rows.append(
                    EpochAnswer(error_code=error, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        return OffsetForLeaderEpochResponse(topics=topics)


def _refusal(led: Led, leader_epoch: int) -> ErrorCode:
    if led.error != ErrorCode.NONE:
        return led.error
    if leader_epoch not in (-1, led.leader_epoch):
        is_old = leader_epoch < led.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE


def _ends_waiting(row: PartitionData) -> bool:
    return bool(row.records) or row.error_code != 0 or row.diverging_epoch.epoch >= 0


class _SourceConnection:
    """One follower's line."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._frames = FrameReader(1 << 26)
        self._connection: Connection | None = None

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._source.connections.append(connection)

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        for frame in self._frames.received(count):
            header, position = decode_request_header(frame)
            request = REQUESTS[header.api_key].decode(frame, header.api_version, position)

            def answer(response: Response, header: Any = header) -> None:
                content = b"".join(encode_response(response, header.api_version, header.correlation_id))
                half = len(content) // 2 if self._source.answers_take_s else len(content)
                self._write(content[:half])
                if half < len(content):
                    self._source.loop.call_later(self._source.answers_take_s, self._write, content[half:])

            self._source.on_request(request, header.api_version, answer)

    def _write(self, content: bytes) -> None:
        if self._connection is not None:
            self._connection.write([content])

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def disconnected(self, _error: Exception | None) -> None:
        self._connection = None


@dataclass
class FollowerWorld:
    """This broker: partitions on a simulated disk, and the fetchers."""

    loop: SimLoop
    network: SimNetwork
    source: Source
    storage: SimStorage
    disk: SimDisk
    environment: LogEnvironment
    fetchers: Fetchers
    quota: ReplicationQuota
    tasks: TaskScope
    addresses: dict[int, Address]
    failed: list[str]

    async def partition(
        self, topic: str = "t", index: int = 0, *, topic_id: bytes = bytes(16), log_config: LogConfig | None = None
    ) -> Partition:
        folder = f"/logs/{topic}-{index}"
        log = await open_log(topic, index, folder, log_config or config(), self.environment, topic_id=topic_id)
        return Partition(log, PartitionContext(ME, WakeUps(self.loop.call_soon)))

    def follow(self, partition: Partition, *, epoch: int = 0, leader: int = SOURCE) -> None:
        partition.become_follower(leader_and_isr(leader, epoch))
        self.fetchers.follow(partition, leader, epoch)

    async def until(self, holds: Callable[[], bool], patience_s: float = 30) -> None:
        async with asyncio.timeout(patience_s):
            while not holds():  # noqa: ASYNC110  virtual time
                await asyncio.sleep(0.001)

    async def copied(self, partition: Partition, led: Led) -> None:
        """Everything that the source has of it is here."""
        await self.until(
            lambda: partition.log.log_end_offset == led.end_offset and partition.high_watermark == led.high_watermark
        )


def leader_and_isr(leader: int, epoch: int, partition_epoch: int = 0) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=[leader],
        partition_epoch=partition_epoch,
        replicas=[ME, SOURCE, 3],
    )


@asynccontextmanager
async def follower_world(loop: SimLoop, version: str = "3.9", **changed: int) -> AsyncIterator[FollowerWorld]:
    clock, network = SimClock(loop), SimNetwork(loop)
    storage, disk = SimStorage(loop, clock), SimDisk(loop)
    disk.slow_probability = 0.0
    filesystem = storage.boot()
    filesystem.make_directory("/logs")
    tasks = TaskScope("follower")
    failed: list[str] = []
    open_segments = OpenSegments(disk.readers())
    environment = LogEnvironment(
        filesystem=filesystem,
        queue=disk.queue("/logs"),
        readers=disk.readers(),
        clock=clock,
        randomness=loop.random,
        tasks=tasks,
        open_segments=open_segments,
        ranges_in_flight=RangesInFlight(open_segments),
        validation="structure",
        producers_max=100_000,
        on_failed=lambda path, error: failed.append(path),
        delete_later=lambda paths, delay_ms: None,
    )
    settings = FetchSettings(
        broker_id=ME,
        partition_max_bytes=1 << 20,
        response_max_bytes=10 << 20,
        min_bytes=1,
        wait_max_ms=WAIT_MS,
        backoff_ms=BACKOFF_MS,
        socket_timeout_ms=3_000,
        fetchers_count=changed.get("fetchers_count", 1),
    )
    source = Source(loop, network)
    await source.listen()
    addresses = {SOURCE: Address("source", PORT)}
    quota = ReplicationQuota(clock.monotonic_ms, window_ms=1000, samples_max=11)
    doors = FetcherDependencies(
        clock=clock, version=InterBrokerVersion.parse(version), broker_epoch=lambda: 77, quota=quota
    )
    fetchers = Fetchers(settings, Connector(network.node("me")), addresses.get, doors, tasks)
    try:
        yield FollowerWorld(
            loop, network, source, storage, disk, environment, fetchers, quota, tasks, addresses, failed
        )
    finally:
        await fetchers.close()
        await tasks.close()


def play(program: Callable[[FollowerWorld], Coroutine[Any, Any, None]], version: str = "3.9", **changed: int) -> None:
    """Run `program` with a follower on virtual time."""

    async def run(loop: SimLoop) -> None:
        async with follower_world(loop, version, **changed) as world:
            await program(world)

    simulate(1, run)


async def diverged(world: FollowerWorld) -> tuple[object, object]:
    """This broker led in epoch 1 and wrote what nobody has; the source leads in epoch 2."""
    partition = await world.partition(log_config=config(segment_bytes=300))
    old = Source(world.loop, world.network).lead()
    for value in "abc":
        old.append(value, epoch=0)
    for value in "defghi":
        old.append(value, epoch=1)
    partition.become_follower(leader_and_isr(SOURCE, 1))
    for _, _, content in old.batches:
        partition.append_as_follower(content, leader_high_watermark=3, leader_log_start_offset=0, now_ms=0)
    await partition.log.await_appends()
    led = world.source.lead(leader_epoch=2)
    for value in "abc":
        led.append(value, epoch=0)
    for value in "xy":
        led.append(value, epoch=2)
    return partition, led
