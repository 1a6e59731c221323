"""A blocking client of a cluster: topics, leaders, offsets by time, coordinators; it asks again until an answer stands.

One client serves one thread of one process: a Spark task, or the driver's planning. Connections are opened when they are needed
and kept, one for each broker. Errors that may pass (a leader that moves, a broker that restarts) are waited out up to
`api_timeout_s`; what does not pass is raised as the error that it is.

Rules: no thread, no background work. Clock and sleep are injected.
Errors: KafkaError for an answer that is an error, ClusterUnavailable (an OSError) when no usable answer came in time.
Source: Kafka NetworkClient, Metadata, OffsetFetcher; KIP-79 (offsets by time).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from barnabas.spark.client.connection import BrokerConnection
from barnabas.spark.client.settings import ConnectionSettings, SparkClientSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition

NO_LEADER: Final = -1
TRANSACTION: Final = 1
GROUP: Final = 0
"""The types of key that FindCoordinator takes: a transactional id, a group."""
_MOVED: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LISTENER_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_ID,
})  # fmt: skip

UNKNOWN_S: Final = 10.0
"""A topic or partition that no broker has known for so long does not exist. A broker that has just started, or a topic that
has just been made, is known to the others within less."""
FIRST_ANSWER_S: Final = 2.0
"""How long a broker may take to accept a connection, and to answer on it, before others are asked: one that hangs accepts
connections, too. The next attempt to reach it has the whole time."""

R = TypeVar("R", bound=Response)


class ClusterUnavailable(ConnectionError):
    """No usable answer came in time; the text says of what, and the last reason."""


class FoundOffset(NamedTuple):
    """`offset` is -1 when no record has the time that was asked for, or a later one."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Topic:
    """`partitions`: the leader of each partition, NO_LEADER without one. `topic_id` is zero when the broker does not say it."""

    topic_id: bytes
    partitions: dict[int, int]
    is_internal: bool


class Attempts:
    """The attempts at one operation: pauses between them, and a time when they end, counted from the first failure."""

    def __init__(
        self, what: str, settings: SparkClientSettings, clock: Callable[[], float], sleep: Callable[[float], None]
    ):
        self._what = what
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._first_failure: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Since the first failure."""
        return 0.0 if self._first_failure is None else self._clock() - self._first_failure

    def pause(self, reason: object) -> None:
        """Wait before the next attempt. Raises ClusterUnavailable when the time is over."""
        if self._first_failure is None:
            self._first_failure = self._clock()
        limit_s = self._settings.api_timeout_s
        if self.elapsed_s >= limit_s:
            raise ClusterUnavailable(f"{self._what}: {reason}, after {limit_s:g} s of attempts")
        self._sleep(self._settings.retry_backoff_s)


class ClusterClient:
    """A client of the cluster that `settings.bootstrap` belongs to. A context manager that closes its connections."""

    def __init__(
        self,
        settings: SparkClientSettings,
        *,
        connect: Callable[[str, int, ConnectionSettings], BrokerConnection] = BrokerConnection,
        clock: Callable[[], float] = time.monotonic,  # noqa: TID251  a user's process, not the broker
        sleep: Callable[[float], None] = time.sleep,
        wall_clock: Callable[[], float] = time.time,  # noqa: TID251
    ) -> None:
        self.settings = settings
        self._connect = connect
        self._clock = clock
        self._sleep = sleep
        self._wall_clock = wall_clock
        self._controller = NO_LEADER
        self._addresses: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, Topic] = {}
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._failed: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    def attempts(self, what: str) -> Attempts:
        return Attempts(what, self.settings, self._clock, self._sleep)

    def now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    # --- any broker ---

    def ask_any(self, request: Request, response_type: type[R]) -> R:
        """Ask one broker after the other until one answers. Raises ClusterUnavailable, KafkaError."""
        attempts = self.attempts(f"{request.api_name} to {self._names()}")
        while True:
            reasons = []
            for address in self._candidates():
                try:
                    return self._connection(address).ask(request, response_type)
                except OSError as error:
                    self.drop(address)
                    reasons.append(f"{address[0]}:{address[1]}: {error.strerror or error}")
            attempts.pause("; ".join(dict.fromkeys(reasons)))

    def ask_controller(self, request: Request, response_type: type[R]) -> R:
        """Ask the controller, as far as the last answer about topics named it. Raises ClusterUnavailable, KafkaError."""
        attempts = self.attempts(request.api_name)
        while True:
            address = self._addresses.get(self._controller)
            try:
                if address is None:
                    return self.ask_any(request, response_type)
                return self._connection(address).ask(request, response_type)
            except OSError as error:
                if address is not None:
                    self.drop(address)
                attempts.pause(error)
                self.topics([])

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """The topics of these names that exist; None asks for all. Raises ClusterUnavailable, KafkaError (not authorised)."""
        attempts = self.attempts("Metadata")
        while True:
            wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            response = self.ask_any(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse)
            self._addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            self._controller = response.controller_id
            found = {topic.name: topic for topic in response.topics if topic.name is not None}
            passing = self._passing_error(found, is_all=names is None)
            if passing is None:
                break
            attempts.pause(passing)
        topics = {name: _topic_of(topic) for name, topic in found.items() if topic.error_code == ErrorCode.NONE}
        self._topics.update(topics)
        for name in found.keys() - topics.keys():
            self._topics.pop(name, None)
        return topics

    def settled_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """As `topics`, but a name counts as missing only when it was for UNKNOWN_S. Raises what `topics` does."""
        wanted = set(names)
        attempts = self.attempts("Metadata")
        while True:
            found = self.topics(wanted)
            missing = wanted - found.keys()
            if not missing or attempts.elapsed_s >= UNKNOWN_S:
                return found
            attempts.pause(f"no broker knows topic {', '.join(sorted(missing))}")

    @staticmethod
    def _passing_error(found: Mapping[str, MetadataResponseTopic], *, is_all: bool) -> str | None:
        """An error that calls for another attempt. Raises KafkaError for one that stays."""
        for name, topic in found.items():
            code = ErrorCode(topic.error_code)
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                continue
            if code.retriable:
                return f"topic {name}: {code.name}"
            if not is_all:
                raise KafkaError(code, f"topic {name}: {code.message}")
        return None

    # --- leaders ---

    def leader_of(self, key: TopicPartition) -> BrokerConnection:
        """A connection to the leader of a partition. Raises OSError, KafkaError (LEADER_NOT_AVAILABLE and the like):
        `refresh` and ask again."""
        topic, partition = key
        known = self._topics.get(topic)
        if known is None:
            known = self.topics([topic]).get(topic)
        if known is None or partition not in known.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition} does not exist")
        address = self._addresses.get(known.partitions[partition])
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return self._connection(address)

    def refresh(self, topics: Iterable[str]) -> None:
        """Forget who leads the partitions of these topics, and where connections that were lost went."""
        for topic in topics:
            self._topics.pop(topic, None)

    def drop_connection(self, connection: BrokerConnection) -> None:
        """Close a connection that failed; the next use opens another one."""
        for address, each in list(self._connections.items()):
            if each is connection:
                self.drop(address)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """For each partition the first offset at or after a time in ms, or EARLIEST or LATEST (`ranges`). Raises
        ClusterUnavailable, KafkaError."""
        found: dict[TopicPartition, FoundOffset] = {}
        attempts = self.attempts("ListOffsets")
        while True:
            missing = {key: timestamp for key, timestamp in wanted.items() if key not in found}
            if not missing:
                return found
            problem = self._ask_offsets(missing, found)
            if problem is not None:
                self.refresh({topic for topic, _ in missing})
                attempts.pause(problem)

    def _ask_offsets(
        self, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, FoundOffset]
    ) -> str | None:
        """One round of requests, to each leader; answers go to `found`. Returns a problem that may pass."""
        problem: str | None = None
        by_leader: dict[BrokerConnection, list[TopicPartition]] = {}
        for key in wanted:
            try:
                by_leader.setdefault(self.leader_of(key), []).append(key)
            except (OSError, KafkaError) as error:
                problem = _passing(error)
        for connection, keys in by_leader.items():
            try:
                response = connection.ask(self._offsets_request(keys, wanted), ListOffsetsResponse)
            except OSError as error:
                self.drop_connection(connection)
                problem = str(error)
                continue
            for topic in response.topics:
                for each in topic.partitions:
                    code = ErrorCode(each.error_code)
                    if code is ErrorCode.NONE:
                        found[topic.name, each.partition_index] = FoundOffset(each.offset, each.timestamp)
                    else:
                        problem = _passing(KafkaError(code, f"{topic.name}-{each.partition_index}: {code.message}"))
        return problem

    def _offsets_request(self, keys: Iterable[TopicPartition], wanted: Mapping[TopicPartition, int]) -> Request:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(
                ListOffsetsPartition(partition_index=partition, timestamp=wanted[topic, partition])
            )
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(self.settings.reads_committed),
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )

    # --- coordinators ---

    def coordinator_of(self, key: str, key_type: int = TRANSACTION) -> BrokerConnection:
        """A connection to the coordinator of a transactional id, or a group. Raises OSError, KafkaError: ask again later."""
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response = self.ask_any(request, FindCoordinatorResponse)
        if response.error_code:
            code = ErrorCode(response.error_code)
            raise KafkaError(code, f"coordinator of {key}: {response.error_message or code.message}")
        return self._connection((response.host, response.port))

    def all_brokers(self) -> list[BrokerConnection]:
        """A connection to each broker of the cluster. Raises OSError, KafkaError."""
        self.topics([])
        return [self._connection(address) for address in self._addresses.values()]

    # --- connections ---

    def drop(self, address: tuple[str, int]) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        """Raises OSError; after FIRST_ANSWER_S when the attempt before has not failed."""
        connection = self._connections.get(address)
        if connection is None:
            settings = self.settings.connection
            if address not in self._failed:
                settings = replace(settings, first_answer_timeout_s=FIRST_ANSWER_S)
            self._failed.add(address)
            connection = self._connections[address] = self._connect(*address, settings)
            self._failed.discard(address)
        return connection

    def _candidates(self) -> list[tuple[str, int]]:
        """Whom to ask: brokers with an open connection first, then the others of the cluster, then those given at the start."""
        known = list(self._addresses.values())
        random.shuffle(known)  # spreads clients over brokers; nothing depends on the order
        return list(dict.fromkeys([*self._connections, *known, *self.settings.bootstrap]))

    def _names(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.settings.bootstrap)


def _topic_of(topic: MetadataResponseTopic) -> Topic:
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    return Topic(topic.topic_id, dict(sorted(leaders.items())), topic.is_internal)


def _passing(error: OSError | KafkaError) -> str:
    """The text of an error that may pass. Raises it when it is one that stays."""
    if isinstance(error, KafkaError) and not (error.code.retriable or error.code in _MOVED):
        raise error
    return str(error)
