"""A blocking client of a cluster: it carries out what `client.admin` asks, and asks again while errors may pass.

    run               steps: requests to places, keys to locate, pauses
    ask_any           one request to whoever answers
    topics, offsets   what there is, waiting for what is about to be there
    leader_of         a connection for the caller's own requests

One client serves one thread of one process. A call lasts for `default.api.timeout.ms` at most, and each of its requests for
`request.timeout.ms`. Brokers are asked side by side: who hangs costs the others nothing.

Errors: KafkaError for an answer that is an error, ClusterUnavailable (an OSError) when no usable answer came in time;
LoginRefused and SettingsError at once.
Source: Kafka NetworkClient, Metadata, KafkaAdminClient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from client.admin.offsets import offsets as offsets_at
from client.admin.steps import AnyRequest, AskPlaces, KeyKind, Locate, Place, Steps, kind_of
from client.blocking.attempts import Attempts, Surroundings
from client.blocking.connection import BrokerConnection
from client.blocking.connections import Connect, Connections
from client.blocking.side_by_side import BrokerOutcome, Round
from client.cluster_view import Address, ClusterView, Topic, find_coordinator_requests
from client.remedies import Remedy, remedy_of
from client.settings.values import ClientSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import Response
from protocol.topic_partition import TopicPartition

UNKNOWN_S: Final = 10.0
"""A topic or partition that no broker has known for so long does not exist. A broker that has just started, or a topic that
has just been made, is known to the others within less."""

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class ClusterClient:
    """A client of the cluster that `settings.servers` belong to. A context manager that closes its connections."""

    def __init__(
        self,
        settings: ClientSettings,
        surroundings: Surroundings | None = None,
        *,
        connect: Connect | None = None,
    ) -> None:
        self.settings = settings
        self.view = ClusterView()
        self._surroundings = made = surroundings or Surroundings()
        self._connections = Connections(settings, made, connect)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connections.close()

    def attempts(self, what: str) -> Attempts:
        """Return the attempts at an operation of the caller's; their time is counted from the first failure."""
        return Attempts(what, self.settings, self._surroundings)

    def now_ms(self) -> int:
        return int(self._surroundings.wall_clock() * 1000)

    # --- what is asked ---

    def run(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Return the result of steps. `timeout_ms` is for operations that take longer than the settings allow, as a whole and
        each request. Raises what they raise, and what the module says."""
        located: list[Locate] = []
        result: Any = None
        with self._call("the cluster", timeout_ms) as attempts:
            while True:
                try:
                    step = steps.send(result)
                except StopIteration as end:
                    value: T = end.value
                    return value
                if isinstance(step, AskPlaces):
                    result = self._ask_places(attempts, step.requests)
                elif isinstance(step, Locate):
                    located.append(step)
                    result = self._locate(attempts, step)
                else:
                    self._forget(step.errors, located)
                    result = attempts.may_pause(next(iter(step.errors), "there is no answer"))

    def ask_any(self, request: AnyRequest, response_type: type[R]) -> R:
        """Ask one broker after the other until one answers. Raises what the module says."""
        with self._call(response_type.api_name) as attempts:
            return self._from_any(attempts, lambda connection, limit_s: connection.ask(request, response_type, limit_s))

    # --- topics and offsets ---

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """The topics of these names that exist; None asks for all. Raises what the module says (not authorised, too)."""
        wanted = None if names is None else list(names)
        with self._call("Metadata") as attempts:
            while True:
                response = self._read_metadata(attempts, wanted)
                passing = self._passing_error(response, is_all=wanted is None)
                if passing is None:
                    break
                attempts.pause(passing)
        there = [topic.name for topic in response.topics if topic.name in self.view.topics]
        return {name: self.view.topics[name] for name in there if name is not None}

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

    def offsets(
        self, times: Mapping[TopicPartition, int], *, is_committed_only: bool = False
    ) -> dict[TopicPartition, int]:
        """As `client.admin.offsets`, waiting for partitions that no broker knows. Raises what the module says."""
        found: dict[TopicPartition, int] = {}
        attempts = self.attempts("ListOffsets")
        while True:
            missing = {key: time for key, time in times.items() if key not in found}
            problem: KafkaError | None = None
            for key, each in self.run(offsets_at(missing, is_committed_only=is_committed_only)).items():
                if isinstance(each, int):
                    found[key] = each
                else:
                    topic, index = key
                    problem = KafkaError(each.code, f"{topic}-{index}: {each.message}")
                    if each.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        raise problem
            if problem is None:
                return found
            self.view.forget_topics({topic for topic, _ in missing})
            attempts.pause(problem)

    # --- connections of the caller's own requests ---

    def leader_of(self, key: TopicPartition) -> BrokerConnection:
        """A connection to the leader of a partition. Raises OSError, KafkaError (LEADER_NOT_AVAILABLE and the like):
        `refresh` and ask again."""
        if self.view.unknown_topics([key[0]]):
            self.topics([key[0]])
        address = self.view.address(self.view.leader(key))
        assert address is not None
        return self._connections.to(address, self.settings.request_timeout_ms / 1000)

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask again who leads the partitions of these topics."""
        self.view.forget_topics(topics)

    def drop_connection(self, connection: BrokerConnection) -> None:
        """Close a connection that failed; the next use opens another one."""
        address = self._connections.address_of(connection)
        if address is not None:
            self._connections.drop(address)

    # --- one broker after the other ---

    @contextmanager
    def _call(self, what: str, timeout_ms: int | None = None) -> Iterator[Attempts]:
        settings = self.settings
        if timeout_ms is not None:
            settings = replace(settings, api_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms)
        attempts = Attempts(what, settings, self._surroundings, from_now=True)
        try:
            yield attempts
        finally:
            attempts.is_over()

    def _request_s(self, attempts: Attempts) -> float:
        """For how long a request may be waited for."""
        return max(0.0, min(attempts.request_s, attempts.left_s))

    def _from_any(self, attempts: Attempts, use: Callable[[BrokerConnection, float], T]) -> T:
        """Raises ClusterUnavailable when the time is over."""
        while True:
            reasons = []
            known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
            for address in self._connections.candidates(known):
                attempts.asks(_shown(address))
                try:
                    connection = self._connections.to(address, self._request_s(attempts))
                    return use(connection, self._request_s(attempts))
                except OSError as error:
                    self._connections.drop(address)
                    reasons.append(_named(address, error))
                if attempts.left_s <= 0:
                    break
            attempts.pause("; ".join(dict.fromkeys(reasons)))

    def _read_metadata(self, attempts: Attempts, names: Iterable[str] | None) -> MetadataResponse:
        attempts.what = "Metadata"
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = self._from_any(
            attempts, lambda connection, limit_s: connection.ask(request, MetadataResponse, limit_s)
        )
        self.view.learn(response, is_of_all_topics=wanted is None)
        return response

    @staticmethod
    def _passing_error(response: MetadataResponse, *, is_all: bool) -> str | None:
        """An error that calls for another attempt. Raises KafkaError for one that stays."""
        for topic in response.topics:
            code = ErrorCode.of(topic.error_code)
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                continue
            if code.retriable:
                return f"topic {topic.name}: {code.name}"
            if not is_all:
                raise KafkaError(code, f"topic {topic.name}: {code.message}")
        return None

    # --- steps ---

    def _locate(self, attempts: Attempts, step: Locate) -> dict[Any, int | KafkaError]:
        keys = list(step.keys)
        if step.kind is not KeyKind.LEADER:
            return self._coordinators(attempts, step.kind.value, keys)
        unknown = self.view.unknown_topics(topic for topic, _ in keys)
        if unknown:
            self._read_metadata(attempts, unknown)
        found: dict[Any, int | KafkaError] = {}
        for key in keys:
            try:
                found[key] = self.view.leader(key)
            except KafkaError as error:
                found[key] = error
        return found

    def _coordinators(self, attempts: Attempts, key_type: int, keys: list[str]) -> dict[str, int | KafkaError]:
        missing = [key for key in keys if self.view.coordinator(key_type, key) is None]
        errors: dict[str, KafkaError] = {}

        def find(connection: BrokerConnection, limit_s: float) -> None:
            version = connection.version_of(FindCoordinatorRequest)
            for request in find_coordinator_requests(key_type, missing, version):
                response = connection.ask(request, FindCoordinatorResponse, limit_s)
                errors.update(self.view.learn_coordinators(request, response))

        if missing:
            attempts.what = "FindCoordinator"
            self._from_any(attempts, find)
        unknown = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        found = {key: self.view.coordinator(key_type, key) for key in keys}
        return {key: errors.get(key, unknown) if each is None else each for key, each in found.items()}

    def _ask_places(
        self, attempts: Attempts, requests: Mapping[int | Place, AnyRequest]
    ) -> dict[int | Place, Response | KafkaError]:
        if not self.view.brokers and any(isinstance(place, int) for place in requests):
            self._read_metadata(attempts, [])
        outcomes: dict[Place, Response | KafkaError] = {}
        by_broker: dict[int, AnyRequest] = {}
        for place, request in requests.items():
            controller = self._controller(attempts) if place is Place.CONTROLLER else None
            attempts.what = kind_of(request).api_name
            if isinstance(place, int):
                by_broker[place] = request
            elif controller is not None:
                outcomes[place] = self._ask_each(attempts, {controller: request})[controller]
            else:
                outcomes[place] = self._any_outcome(attempts, request)
        found = self._ask_each(attempts, by_broker)
        return {place: found[place] if isinstance(place, int) else outcomes[place] for place in requests}

    def _any_outcome(self, attempts: Attempts, request: AnyRequest) -> Response | KafkaError:
        kind = kind_of(request).response_type
        try:
            found = self._from_any(attempts, lambda connection, limit_s: connection.ask(request, kind, limit_s))
        except KafkaError as error:
            return error
        if isinstance(request, MetadataRequest) and isinstance(found, MetadataResponse):
            self.view.learn(found, is_of_all_topics=request.topics is None)
        return found

    def _controller(self, attempts: Attempts) -> int:
        while self.view.controller_id is None:
            self._read_metadata(attempts, [])
            if self.view.controller_id is None:
                attempts.pause("the cluster has no controller")
        return self.view.controller_id

    def _forget(self, errors: Collection[KafkaError], located: Iterable[Locate]) -> None:
        """Forget what errors disprove of what was located."""
        remedies = {remedy_of(error.code) for error in errors}
        if Remedy.FIND_CONTROLLER in remedies:
            self.view.forget_controller()
        for kind, keys in located:
            if kind is KeyKind.LEADER and Remedy.REFRESH_METADATA in remedies:
                self.view.forget_topics(topic for topic, _ in keys)
            if kind is not KeyKind.LEADER and Remedy.FIND_COORDINATOR in remedies:
                self.view.forget_coordinators(kind.value, keys)

    # --- side by side ---

    def _ask_each(self, attempts: Attempts, requests: Mapping[int, AnyRequest]) -> dict[int, Response | KafkaError]:
        """Ask once; return a response or an error for each broker. Raises LoginRefused, SettingsError."""
        clock = self._surroundings.clock
        limit_s = self._request_s(attempts)
        end_s = clock() + limit_s
        outcomes: dict[int, Response | KafkaError] = {}
        asked = Round()
        tasks = []
        for broker_id, request in requests.items():
            address = self.view.address(broker_id)
            if address is None:
                text = f"broker {broker_id} is not in the cluster"
                outcomes[broker_id] = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
                continue
            connect = functools.partial(self._connections.new, address, limit_s, limit_s)

            def ask(connection: BrokerConnection, request: AnyRequest = request) -> Response:
                return connection.ask(request, kind_of(request).response_type, max(0.0, end_s - clock()))

            tasks.append(asked.task(broker_id, self._connections.kept(address), connect, ask))
        start = self._surroundings.start if len(tasks) > 1 else _here
        try:
            for task in tasks:
                start(task)
            while asked.waits_for:
                attempts.asks(*map(self.view.name, asked.waits_for))
                found = asked.next(end_s - clock())
                if found is None:
                    break
                outcomes[found.broker_id] = self._settled(found)
        finally:
            for broker_id in asked.abandon():
                self._connections.let_go(self._address(broker_id))
                self.view.forget_roles(broker_id)
                text = f"{self.view.name(broker_id)}: no response within {round(limit_s, 2):g} s"
                outcomes[broker_id] = KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        return outcomes

    def _settled(self, found: BrokerOutcome) -> Response | KafkaError:
        """Keep the connection of an answer, forget that of a failure. Raises what is no failure of one broker."""
        address, value = self._address(found.broker_id), found.value
        if found.connection is not None:
            self._connections.keep(address, found.connection)
        if isinstance(value, Response | KafkaError):
            return value
        self._connections.drop(address)
        if not isinstance(value, OSError):
            assert isinstance(value, BaseException)
            raise value
        self._connections.failed(address)
        self.view.forget_roles(found.broker_id)
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, _named(address, value))

    def _address(self, broker_id: int) -> Address:
        address = self.view.address(broker_id)
        assert address is not None
        return address


def _here(run: Callable[[], None]) -> None:
    run()


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _named(address: Address, error: OSError) -> str:
    """Return the text of an error, with the address it is about."""
    text = str(error.strerror or error)
    return text if text.startswith(_shown(address)) else f"{_shown(address)}: {text}"
