"""A client of one cluster on an event loop: a connection to each broker that is needed, and who leads and coordinates what.

Requests that wait at a broker (long fetches, JoinGroup) delay what follows them on their connection: they have another `lane`.

Rules: what an answer disproves is told by the caller (`forget_...`), and asked again. Whoever sends repeats: nothing is sent
twice here, but the questions about the cluster. Bounded: one question about topics at a time.
Errors: OSError when no answer came, KafkaError when a broker does not know a request in any version of this client.
Source: Kafka NetworkClient, Metadata, KIP-899 (back to the first addresses when no known broker answers).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from client.backoff import Backoff
from client.cluster_view import ClusterView
from client.event_loop.broker_client import BrokerClient
from client.opening import Ask, VersionRanges, ask_versions
from client.versions import common_version
from protocol.errors import KafkaError
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from runtime.network.transport import Address
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from client.admin.steps import KeyKind
    from client.event_loop.connector import Connector
    from protocol.schema import Request, Response
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

R = TypeVar("R", bound="Response")
FIRST_LANE: Final = 0
WAITING_LANE: Final = 1
"""For requests that wait at the broker."""
ONE_KEY_VERSION: Final = 3
"""The last version of FindCoordinator for one key."""
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
        metadata_max_age_s: float = METADATA_MAX_AGE_S,
    ) -> None:
        self.view = ClusterView()
        self._connector = connector
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._randomness = randomness
        self._request_timeout_ms = request_timeout_ms
        self._metadata_max_age_s = metadata_max_age_s
        self._tasks = TaskScope(f"client {client_id}")
        self._clients: dict[
            tuple[int, int], BrokerClient
        ] = {}  # by broker and lane; addresses to begin with are below zero
        self._versions: dict[int, VersionRanges] = {}
        self._topics: dict[str, None] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_s = float("-inf")
        self._failures = 0

    async def close(self) -> None:
        for client in self._clients.values():
            client.close()
        await self._tasks.close()

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
        """Send a request in the newest version that both sides know, up to `max_version`. Raises OSError, KafkaError."""
        client = self._client(broker_id, lane)
        try:
            known = self._versions.get(broker_id)
            if known is None:
                known = self._versions[broker_id] = await self._ask_versions(client)
            version = self._version(request, known, broker_id)
            if max_version is not None:
                version = min(version, max_version)
            return await client.send(request, version, response_type, timeout_ms=timeout_ms)
        except OSError:
            self._versions.pop(broker_id, None)  # whoever answers next may be another version
            self.view.forget_roles(broker_id)
            raise

    async def send_to_any(self, request: Request, response_type: type[R], *, max_version: int | None = None) -> R:
        """Send to one broker after the other until one answers. Raises OSError, KafkaError."""
        candidates = list(self.view.brokers)
        self._randomness.shuffle(candidates)
        error: OSError = ConnectionError("no broker is known")
        for broker_id in [*candidates, *(-1 - index for index in range(len(self._bootstrap)))]:
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
        key_type = int(kind.value)
        broker_id = self.view.coordinator(key_type, key)
        if broker_id is None:
            find = FindCoordinatorRequest(key_type=key_type, key=key)
            found = await self.send_to_any(find, FindCoordinatorResponse, max_version=ONE_KEY_VERSION)
            errors = self.view.learn_coordinators(find, found)
            if (error := errors.get(key)) is not None:
                if error.code.retriable:
                    raise ConnectionError(str(error))
                raise error
            broker_id = self.view.coordinator(key_type, key)
            assert broker_id is not None
        return await self.send(
            broker_id, request, response_type, lane=lane, timeout_ms=timeout_ms, max_version=max_version
        )

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
        """Return how many partitions a topic has, when a broker has said it. Raises KafkaError, where that may not pass."""
        while True:
            self._topics[topic] = None
            if topic in self.view.topics:
                return len(self.view.topics[topic].partitions)
            await self.refresh()
            if topic not in self.view.topics:
                self._raise_for(topic)

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
        names = list(self._topics)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        try:
            response = await self.send_to_any(request, MetadataResponse)
        except (OSError, KafkaError):
            self._failures += 1
            return
        self.view.learn(response)
        self._refreshed_s = asyncio.get_running_loop().time()
        self._failures = 0

    # --- connections ---

    def _client(self, broker_id: int, lane: int) -> BrokerClient:
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

    def _version(self, request: Request, known: VersionRanges, broker_id: int) -> int:
        return common_version(type(request), known, self.view.name(broker_id))

    async def _ask_versions(self, client: BrokerClient) -> VersionRanges:
        steps, response = ask_versions(), None
        while True:
            try:
                step = steps.send(response)
            except StopIteration as end:
                found: VersionRanges = end.value
                return found
            assert isinstance(step, Ask)
            response = await client.send(step.request, step.version, ApiVersionsResponse)
