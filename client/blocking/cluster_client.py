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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from client.admin.driver import AskAny, AskBrokers, Work, carried_out, topics_there
from client.admin.offsets import offsets as offsets_at
from client.admin.steps import AnyRequest, Steps, kind_of
from client.blocking.attempts import Attempts, Surroundings
from client.blocking.connection import BrokerConnection
from client.blocking.connections import Connect, Connections
from client.blocking.side_by_side import BrokerOutcome, Round
from client.cluster_view import Address, ClusterView, Topic
from client.settings.values import ClientSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.schema import Request, Response
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
        with self._call("the cluster", timeout_ms) as attempts:
            return self._carry_out(attempts, carried_out(steps, self.view))

    def ask_any(self, request: AnyRequest, response_type: type[R]) -> R:
        """Ask one broker after the other until one answers. Raises what the module says."""
        with self._call(response_type.api_name) as attempts:
            return self._from_any(attempts, lambda connection, limit_s: connection.ask(request, response_type, limit_s))

    # --- topics and offsets ---

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """The topics of these names that exist; None asks for all. Raises what the module says (not authorised, too)."""
        with self._call("Metadata") as attempts:
            return self._carry_out(attempts, topics_there(self.view, None if names is None else list(names)))

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

    def _carry_out(self, attempts: Attempts, work: Work[T]) -> T:
        """Raises what the work raises, and what the module says."""
        result: Any = None
        while True:
            try:
                step = work.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, AskAny):
                attempts.what = step.kind.api_name
                result = self._any_outcome(attempts, step)
            elif isinstance(step, AskBrokers):
                attempts.what = kind_of(next(iter(step.requests.values()))).api_name
                result = self._ask_each(attempts, step.requests)
            elif step.is_needed:
                attempts.pause(step.reason)
                result = True
            else:
                result = attempts.may_pause(step.reason)

    def _any_outcome(self, attempts: Attempts, step: AskAny) -> list[tuple[Request, Response]] | KafkaError:
        def ask(connection: BrokerConnection, limit_s: float) -> list[tuple[Request, Response]]:
            requests = step.in_version(connection.version_of(step.kind))
            return [(request, connection.ask(request, step.kind.response_type, limit_s)) for request in requests]

        try:
            return self._from_any(attempts, ask)
        except KafkaError as error:
            return error

    def _from_any(self, attempts: Attempts, use: Callable[[BrokerConnection, float], T]) -> T:
        """Raises ClusterUnavailable when the time is over."""
        while True:
            reasons = []
            known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
            for address in self._connections.candidates(known):
                attempts.asks(_shown(address))
                try:
                    connection = self._connections.to(address, attempts.times.left_for_request_s)
                    return use(connection, attempts.times.left_for_request_s)
                except OSError as error:
                    self._connections.drop(address)
                    reasons.append(_named(address, error))
                if attempts.times.left_s <= 0:
                    break
            attempts.pause("; ".join(dict.fromkeys(reasons)))

    # --- side by side ---

    def _ask_each(self, attempts: Attempts, requests: Mapping[int, AnyRequest]) -> dict[int, Response | KafkaError]:
        """Ask once; return a response or an error for each broker. Raises LoginRefused, SettingsError."""
        clock = self._surroundings.clock
        limit_s = attempts.times.left_for_request_s
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
