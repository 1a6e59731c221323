"""A cluster of scripted brokers behind the interface of a connection, and a clock that a pause moves."""

from __future__ import annotations

import importlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from protocol.records.batch import iter_headers

PORT = 9092


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.at_pause: list[Callable[[], None]] = []
        """What happens at the next pauses, one each."""

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.at_pause:
            self.at_pause.pop(0)()


class Cluster:
    """`leaders`: the broker that leads each partition. `logs`: record batches, end to end. Brokers in `down` refuse
    connections, those in `slow` take some seconds to answer on a new one."""

    prefix = ""
    """Of the modules' names."""

    def __init__(self, partitions: dict[tuple[str, int], int], brokers: int = 3) -> None:
        self.brokers = range(brokers)
        self.leaders = dict(partitions)
        self.ids: dict[str, bytes] = {}
        self.logs: dict[tuple[str, int], bytes] = {}
        self.starts: Counter[tuple[str, int]] = Counter()
        self.stable: dict[tuple[str, int], int] = {}
        self.aborted: list[tuple[int, int]] = []
        self.down: set[int] = set()
        self.slow: dict[int, float] = {}
        self.errors: list[tuple[str, int]] = []
        """Answers to the next requests of these names, in place of the real one: (name, error code)."""
        self.asked: list[tuple[int, str]] = []
        self.handlers: dict[str, Callable[[int, Any], Any]] = {}
        self.fetch_bytes = 1 << 20
        self.controller = 0
        self.clock = Clock()
        self.versions = {"FindCoordinatorRequest": 3}
        self.waits: list[Any] = []

    def client(self, **settings: Any) -> Any:
        attempts, client, values = map(
            self.module, ("client.blocking.attempts", "client.blocking.cluster_client", "client.settings.values")
        )
        return client.ClusterClient(
            values.ClientSettings((("broker-0", PORT), ("broker-1", PORT)), **settings),
            attempts.Surroundings(
                self.clock,
                self.clock.sleep,
                randomness=random.Random(7),
                start=lambda run: run(),
                on_wait=self.waits.append,
            ),
            connect=self._connect,
        )

    def message(self, name: str) -> Any:
        return self.module(f"protocol.messages.{name}")

    def module(self, name: str) -> Any:
        """A module of the package that is tested."""
        return importlib.import_module(self.prefix + name)

    def _connect(self, host: str, _port: int, _settings: Any, *, first_s: float, most_s: float) -> Connection:
        broker = int(host.rpartition("-")[2])
        takes_s = self.slow.get(broker, 0.0)
        self.clock.now_s += min(takes_s, first_s)
        if takes_s > first_s:
            raise ConnectionError(f"{host}: no response within {first_s:g} s")
        return Connection(self, broker)

    def end(self, key: tuple[str, int]) -> int:
        offset = self.starts[key]
        for _, header in iter_headers(self.logs.get(key, b"")):
            offset = header.next_offset
        return offset

    def answer(self, broker: int, request: Any) -> Any:
        name = request.api_name
        self.asked.append((broker, name))
        code = 0
        if self.errors and self.errors[0][0] == name:
            code = self.errors.pop(0)[1]
        if name in self.handlers:
            return self.handlers[name](broker, request)
        return getattr(self, f"_{name}")(broker, request, code)

    def _Metadata(self, broker: int, request: Any, code: int) -> Any:
        names = (
            sorted({topic for topic, _ in self.leaders}) if request.topics is None else [t.name for t in request.topics]
        )
        topics = []
        for name in names:
            partitions = {number: leader for (topic, number), leader in self.leaders.items() if topic == name}
            topics.append(
                self.message("metadata").MetadataResponseTopic(
                    error_code=code or (0 if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    name=name,
                    topic_id=self.ids.get(name, ZERO_UUID),
                    is_internal=name.startswith("__"),
                    partitions=[
                        self.message("metadata").MetadataResponsePartition(
                            error_code=0, partition_index=number, leader_id=leader, replica_nodes=[], isr_nodes=[]
                        )
                        for number, leader in partitions.items()
                    ],
                )
            )
        brokers = [
            self.message("metadata").MetadataResponseBroker(node_id=n, host=f"broker-{n}", port=PORT)
            for n in self.brokers
        ]
        return self.message("metadata").MetadataResponse(brokers=brokers, controller_id=self.controller, topics=topics)

    def _ListOffsets(self, broker: int, request: Any, code: int) -> Any:
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                key = (topic.name, part.partition_index)
                error = code or self._leads(broker, key)
                offset = self.starts[key] if part.timestamp == -2 else self.end(key)
                if part.timestamp == -1 and request.isolation_level:
                    offset = self.stable.get(key, offset)
                if part.timestamp >= 0:
                    offset = -1
                    for _, header in iter_headers(self.logs.get(key, b"")):
                        if header.max_timestamp >= part.timestamp:
                            offset = header.base_offset
                            break
                parts.append(
                    self.message("list_offsets").ListOffsetsPartitionResponse(
                        partition_index=part.partition_index, error_code=error, offset=-1 if error else offset
                    )
                )
            topics.append(self.message("list_offsets").ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return self.message("list_offsets").ListOffsetsResponse(topics=topics)

    def _Fetch(self, broker: int, request: Any, code: int) -> Any:
        messages = self.message("fetch")
        (topic,) = request.topics
        (part,) = topic.partitions
        key = (topic.topic, part.partition)
        log, end = self.logs.get(key, b""), self.end(key)
        stable = self.stable.get(key, end)
        error = code or self._leads(broker, key)
        if not error and not self.starts[key] <= part.fetch_offset <= end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        records = b""
        if not error:
            for position, header in iter_headers(log):
                if header.last_offset < part.fetch_offset or (request.isolation_level and header.last_offset >= stable):
                    continue
                records += log[position : position + header.size_bytes]
                if len(records) >= self.fetch_bytes:
                    break
        data = messages.PartitionData(
            partition_index=part.partition,
            error_code=error,
            high_watermark=end,
            last_stable_offset=stable,
            aborted_transactions=[
                messages.AbortedTransaction(first_offset=first, producer_id=producer)
                for first, producer in self.aborted
            ],
            records=records,
        )
        return messages.FetchResponse(responses=[messages.FetchableTopicResponse(topic=topic.topic, partitions=[data])])

    def _FindCoordinator(self, broker: int, request: Any, code: int) -> Any:
        found = {"node_id": 1, "host": "broker-1", "port": PORT, "error_code": code, "error_message": None}
        messages = self.message("find_coordinator")
        if not request.coordinator_keys:
            return messages.FindCoordinatorResponse(**found)
        rows = [messages.Coordinator(key=key, **found) for key in request.coordinator_keys]
        return messages.FindCoordinatorResponse(coordinators=rows)

    def _leads(self, broker: int, key: tuple[str, int]) -> int:
        leader = self.leaders.get(key)
        if leader is None:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return 0 if leader == broker else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Connection:
    """What `BrokerConnection` is to a client."""

    def __init__(self, cluster: Cluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker
        self._pending: list[Any] = []
        self.is_open = True
        self._check()

    @property
    def is_usable(self) -> bool:
        return self.is_open

    def version_of(self, request: type) -> int:
        return self._cluster.versions.get(request.__name__, request.max_version)  # type: ignore[attr-defined]

    def ask(self, request: Any, response_type: type, _timeout_s: float | None = None) -> Any:
        assert not self._pending
        self.send(request.in_version(self.version_of(request.kind)) if hasattr(request, "in_version") else request)
        return self.receive(response_type)

    def send(self, request: Any) -> None:
        self._check()
        self._pending.append(request)

    def receive(self, response_type: type) -> Any:
        self._check()
        response = self._cluster.answer(self._broker, self._pending.pop(0))
        if response is None:
            raise ConnectionError(f"broker-{self._broker}: the broker closed the connection")
        assert type(response) is response_type
        return response

    def close(self) -> None:
        self.is_open = False

    abort = close

    def _check(self) -> None:
        assert self.is_open, "used after it was closed"
        if self._broker in self._cluster.down:
            raise ConnectionRefusedError(111, "Connection refused")
