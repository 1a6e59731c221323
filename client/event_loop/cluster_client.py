"""A client of one cluster on an event loop: a connection to each broker that is needed, and who leads and coordinates what.

Requests that wait at a broker (long fetches, JoinGroup) delay what follows them on their connection: they have another `lane`.

    run, topics        what `client.admin` asks, again while errors may pass
    send, send_to_...  one request of the caller's, once

Rules: what an answer to a request of the caller's disproves is told by the caller (`forget_...`), and asked again. Bounded: one
question about topics at a time.
Errors: OSError when no answer came, ClusterUnavailable among them when none came in time, NotAuthenticated when a broker
refuses the login, which no repetition mends; KafkaError for an answer that is an error, or when a broker does not know a
request in any version of this client.
Source: Kafka NetworkClient, Metadata, KIP-899 (back to the first addresses when no known broker answers); KafkaAdminClient.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from client.admin.driver import AskAny, AskBrokers, Pause, carried_out, coordinators, read_metadata, topics_there
from client.attempts import FIRST_ANSWER_S, AttemptTimes
from client.backoff import Backoff
from client.cluster_view import ClusterView
from client.errors import ClusterUnavailable, NotAuthenticated
from client.event_loop.broker_client import BrokerClient
from client.opening import Ask, Known, VersionRanges, ask_versions
from client.versions import common_version
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.schema import Request
from runtime.error_texts import reason_of
from runtime.network.transport import Address
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from client.admin.driver import Work
    from client.admin.steps import AnyRequest, KeyKind, Steps
    from client.cluster_view import Topic
    from client.event_loop.connector import Connector
    from protocol.schema import Response
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

R = TypeVar("R", bound="Response")
T = TypeVar("T")
FIRST_LANE: Final = 0
WAITING_LANE: Final = 1
"""For requests that wait at the broker."""
API_TIMEOUT_MS: Final = 60_000
METADATA_MAX_AGE_S: Final = 300.0
BACKOFF: Final = Backoff(100, 1_000)


class AsyncClusterClient:
    """`bootstrap` are the addresses to begin with."""

    def __init__(
        self,
        connector: Connector,
        bootstrap: Sequence[Address],
        client_id: str,
        randomness: Randomness,
        *,
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int = API_TIMEOUT_MS,
        metadata_max_age_s: float = METADATA_MAX_AGE_S,
    ) -> None:
        self.view = ClusterView()
        self._connector = connector
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._randomness = randomness
        self._request_timeout_ms = request_timeout_ms
        self._api_timeout_ms = api_timeout_ms
        self._metadata_max_age_s = metadata_max_age_s
        self._tasks = TaskScope(f"client {client_id}")
        self._clients: dict[
            tuple[int, int], BrokerClient
        ] = {}  # by broker and lane; addresses to begin with are below zero
        self._versions: dict[int, VersionRanges] = {}
        self.transaction_version = 0
        """The level of that feature in the cluster, as the last broker said that was connected to."""
        self._unreached: set[int] = set()
        """Who has not answered when last asked: the next attempt has the whole time."""
        self._topics: dict[str, None] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_s = float("-inf")
        self._failures = 0

    async def close(self) -> None:
        """End everything that waits for an answer, with ConnectionError; what is asked later fails the same way."""
        for client in self._clients.values():
            client.close()
        await self._tasks.close()

    # --- administration ---

    async def run(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Return the result of steps. `timeout_ms` is for operations that take longer than usual, as a whole and each request.
        Raises what they raise, and what the module says."""
        return await self._carry_out(carried_out(steps, self.view), self._times(timeout_ms))

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return the topics of these names that exist; None asks for all. Raises what the module says (not authorised, too)."""
        work = topics_there(self.view, None if names is None else list(names))
        return await self._carry_out(work, self._times())

    def _times(self, timeout_ms: int | None = None) -> AttemptTimes:
        return AttemptTimes(
            asyncio.get_running_loop().time,
            self._randomness,
            BACKOFF,
            limit_ms=self._api_timeout_ms if timeout_ms is None else timeout_ms,
            request_ms=self._request_timeout_ms if timeout_ms is None else timeout_ms,
            from_now=True,
        )

    async def _carry_out(self, work: Work[T], times: AttemptTimes | None = None) -> T:
        """Return the result of work, in one attempt without `times`. Raises what it raises, and what the module says."""
        result: Any = None
        while True:
            try:
                step = work.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, AskAny):
                result = await self._any_outcome(step, times)
            elif isinstance(step, AskBrokers):
                limit_ms = self._request_timeout_ms if times is None else round(times.left_for_request_s * 1000)
                asked = (self._outcome(each, request, limit_ms) for each, request in step.requests.items())
                result = dict(zip(step.requests, await asyncio.gather(*asked), strict=True))
            else:
                result = await self._pause(step, times)

    async def _any_outcome(
        self, step: AskAny, times: AttemptTimes | None
    ) -> list[tuple[Request, Response]] | KafkaError:
        while True:
            self._check_open()
            reasons: list[str] = []
            failure: OSError = ConnectionError("no broker is known")
            for broker_id in self._candidates():
                limit_ms = self._request_timeout_ms if times is None else round(times.left_for_request_s * 1000)
                if times is not None and broker_id not in self._unreached and not self._client(broker_id).is_connected:
                    limit_ms = min(limit_ms, round(FIRST_ANSWER_S * 1000))
                try:
                    return await self._send_all(broker_id, step, limit_ms)
                except KafkaError as error:
                    return error
                except NotAuthenticated:
                    raise
                except OSError as error:
                    self._unreached.add(broker_id)
                    reasons.append(f"{self._shown(broker_id)}: {reason_of(error)}")
                    failure = error
                if times is not None and times.left_s <= 0:
                    break
            if times is None:
                raise failure
            text = f"{step.kind.api_name}: {'; '.join(dict.fromkeys(reasons))}"
            await self._pause(Pause(text, is_needed=True), times)

    async def _send_all(self, broker_id: int, step: AskAny, limit_ms: int) -> list[tuple[Request, Response]]:
        """Send requests in the version that they are made for. Raises OSError, KafkaError."""
        client = self._client(broker_id)
        with self._forgetting(broker_id):
            version = common_version(
                step.kind, await self._known(broker_id, client, limit_ms), self.view.name(broker_id)
            )
            return [
                (each, await client.send(each, version, step.kind.response_type, timeout_ms=limit_ms))
                for each in step.in_version(version)
            ]

    async def _outcome(self, broker_id: int, asked: AnyRequest, limit_ms: int) -> Response | KafkaError:
        if self.view.address(broker_id) is None:
            return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the cluster")
        try:
            if isinstance(asked, Request):
                found = await self._send_all(broker_id, AskAny(type(asked), lambda _: [asked]), limit_ms)
            else:
                found = await self._send_all(
                    broker_id, AskAny(asked.kind, lambda version: [asked.in_version(version)]), limit_ms
                )
        except KafkaError as error:
            return error
        except NotAuthenticated as error:
            return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
        except OSError as error:
            return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self._shown(broker_id)}: {reason_of(error)}")
        return found[0][1]

    @staticmethod
    async def _pause(step: Pause, times: AttemptTimes | None) -> bool:
        """Return whether there was time for it. Raises ClusterUnavailable when there was none, and it is needed."""
        assert times is not None, "what is asked once has no pauses"
        pause_s = times.failed()
        if pause_s is not None:
            await asyncio.sleep(pause_s)
        elif step.is_needed:
            raise ClusterUnavailable(f"{step.reason}, after {times.limit_s:g} s of attempts")
        return pause_s is not None

    # --- requests ---

    async def send(
        self,
        broker_id: int,
        request: Request,
        response_type: type[R],
        *,
        lane: int = FIRST_LANE,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request in the newest version that both sides know, up to `max_version`, if it is given, else up to the one
        that is commonly used. Raises OSError, KafkaError."""
        client = self._client(broker_id, lane)
        with self._forgetting(broker_id):
            known = await self._known(broker_id, client)
            version = common_version(type(request), known, self.view.name(broker_id), max_version)
            return await client.send(request, version, response_type, timeout_ms=timeout_ms)

    async def send_to_any(self, request: Request, response_type: type[R], *, max_version: int | None = None) -> R:
        """Send to one broker after the other until one answers. Raises OSError, KafkaError."""
        error: OSError = ConnectionError("no broker is known")
        for broker_id in self._candidates():
            try:
                return await self.send(broker_id, request, response_type, max_version=max_version)
            except OSError as failure:
                error = failure
        raise error

    async def send_to_coordinator(
        self,
        kind: KeyKind,
        key: str,
        request: Request,
        response_type: type[R],
        *,
        lane: int = FIRST_LANE,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send to the coordinator of a key, which is looked for when it is not known. Raises OSError, KafkaError."""
        found = (await self._carry_out(coordinators(self.view, kind, [key])))[key]
        if isinstance(found, KafkaError):
            if found.code.retriable:
                raise ConnectionError(str(found))
            raise found
        return await self.send(found, request, response_type, lane=lane, timeout_ms=timeout_ms, max_version=max_version)

    # --- topics ---

    def leader_of(self, key: TopicPartition) -> int | None:
        """Return the leader of a partition; None while it is not known, which is being asked then."""
        topic = key[0]
        self.watch_topics([topic])
        if self.view.unknown_topics([topic]):
            self._refresh()
            return None
        try:
            return self.view.leader(key)
        except KafkaError:
            self.view.forget_topics([topic])
            self._refresh()
            return None

    def leader_epoch(self, key: TopicPartition) -> int:
        """Return the epoch of the leader that `leader_of` names; -1 when it is not known."""
        topic = self.view.topics.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        return -1 if partition is None else partition.leader_epoch

    async def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, when a broker has said it. Raises KafkaError, where that may not pass, or has
        not passed in the client's time for operations: UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist;
        ClusterUnavailable, when no broker has answered the last question in this time."""
        self._topics[topic] = None
        if topic not in self.view.topics:
            await self._find(topic)
        return len(self.view.topics[topic].partitions)

    def watch_topics(self, topics: Iterable[str]) -> None:
        """Ask about these, too, whenever brokers are asked about topics, which is done now when the last answer is old."""
        self._topics.update(dict.fromkeys(topics))
        if asyncio.get_running_loop().time() - self._refreshed_s > self._metadata_max_age_s:
            self._refresh()

    async def refresh(self) -> None:
        """Return when a broker has been asked about the topics, with an answer or without."""
        await asyncio.shield(self._refresh())

    def forget_topics(self, topics: Sequence[str]) -> None:
        self.view.forget_topics(topics)

    def forget_coordinator(self, kind: KeyKind, key: str) -> None:
        self.view.forget_coordinators(int(kind.value), [key])

    async def _find(self, topic: str) -> None:
        """Return when a broker has told of the topic. Raises KafkaError, ClusterUnavailable, and stops asking about it."""
        try:
            async with asyncio.timeout(self._api_timeout_ms / 1000):
                while topic not in self.view.topics:
                    self._topics[topic] = None
                    await self.refresh()
                    if topic not in self.view.topics:
                        self._raise_for(topic)
        except TimeoutError:
            self._topics.pop(topic, None)
            raise self._not_found(topic) from None
        except KafkaError:
            self._topics.pop(topic, None)
            raise

    def _not_found(self, topic: str) -> KafkaError | ClusterUnavailable:
        """Return why a topic was not found in time."""
        waited = f"after {self._api_timeout_ms / 1000:g} s of attempts"
        if self._failures or self._refreshed_s == float("-inf"):
            return ClusterUnavailable(f"no broker tells of topic {topic}, {waited}")
        try:
            self.view.leader((topic, 0))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return KafkaError(error.code, f"{error.message}, {waited}")
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist, {waited}")

    def _raise_for(self, topic: str) -> None:
        try:
            self.view.leader((topic, 0))
        except KafkaError as error:
            if not error.code.retriable:
                raise

    def _refresh(self) -> asyncio.Task[None]:
        """Return what ends when brokers have been asked about the topics, which it is not to wait for."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._tasks.spawn(self._ask_metadata(), name="metadata")
        return self._refreshing

    async def _ask_metadata(self) -> None:
        if self._failures or self._refreshed_s > float("-inf"):
            await asyncio.sleep(BACKOFF.pause_ms(max(self._failures, 1), self._randomness) / 1000)
        try:
            await self._carry_out(read_metadata(self.view, list(self._topics)))
        except (OSError, KafkaError):
            self._failures += 1
            return
        self._refreshed_s = asyncio.get_running_loop().time()
        self._failures = 0

    # --- connections ---

    def _candidates(self) -> list[int]:
        """Return whom to ask first, and who follows: brokers of the cluster, then the addresses to begin with."""
        known = list(self.view.brokers)
        self._randomness.shuffle(known)
        return [*known, *(-1 - index for index in range(len(self._bootstrap)))]

    @contextmanager
    def _forgetting(self, broker_id: int) -> Iterator[None]:
        """Forget what a broker knows and leads when it does not answer: whoever answers next may be another version."""
        try:
            yield
        except OSError:
            self._versions.pop(broker_id, None)
            self.view.forget_roles(broker_id)
            raise
        self._unreached.discard(broker_id)

    async def _known(self, broker_id: int, client: BrokerClient, timeout_ms: int | None = None) -> VersionRanges:
        """Return the versions that a broker knows, which it is asked for once."""
        known = self._versions.get(broker_id)
        if known is None:
            known, self.transaction_version = await self._ask_versions(client, timeout_ms)
            self._versions[broker_id] = known
        return known

    def _shown(self, broker_id: int) -> str:
        address = self._address(broker_id)
        return f"broker {broker_id}" if address is None else str(address)

    def _check_open(self) -> None:
        """Raises ConnectionError once this client is closed: nobody would close a connection that is opened now."""
        if self._tasks.is_closed:
            raise ConnectionError("the client was closed")

    def _client(self, broker_id: int, lane: int = FIRST_LANE) -> BrokerClient:
        self._check_open()
        client = self._clients.get((broker_id, lane))
        if client is None:
            client = BrokerClient(
                self._connector,
                lambda: self._address(broker_id),
                self._client_id,
                timeout_ms=self._request_timeout_ms,
            )
            self._clients[broker_id, lane] = client
        return client

    def _address(self, broker_id: int) -> Address | None:
        if broker_id < 0:
            return self._bootstrap[-1 - broker_id]
        address = self.view.address(broker_id)
        return None if address is None else Address(*address)

    @staticmethod
    async def _ask_versions(client: BrokerClient, timeout_ms: int | None) -> Known:
        steps, response = ask_versions(), None
        while True:
            try:
                step = steps.send(response)
            except StopIteration as end:
                found: Known = end.value
                return found
            assert isinstance(step, Ask)
            response = await client.send(step.request, step.version, ApiVersionsResponse, timeout_ms=timeout_ms)
