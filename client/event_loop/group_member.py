"""A member of a group on an event loop: the shell of `client.membership`, with commits and committed offsets.

    member = GroupMember(cluster, "group", ["topic"], listener, randomness)
    member.polled()                       whenever the application asks for records, or it leaves
    await member.commit(offsets)          or `member.membership` for `Producer.send_offsets`
    await member.close()

`settings.protocol` says which kind of group it is: a classic one, whose leader assigns the partitions, or a consumer group
(KIP-848), whose coordinator does.

Rules: the listener is called by one task, in the order of the events; a revocation is over when its call returns, and the
group waits for that. JoinGroup and SyncGroup wait at the broker, on a connection of their own.
Errors: KafkaError for what failed for good: FatalError when the member may do nothing any more.
Source: Kafka ConsumerCoordinator, AbstractCoordinator with its heartbeat thread; AsyncKafkaConsumer of 4.3.0.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final, Protocol

from client.admin.steps import KeyKind
from client.backoff import Backoff
from client.committing import GroupMembership
from client.errors import FatalError
from client.event_loop.cluster_client import FIRST_LANE, WAITING_LANE
from client.event_loop.group_leading import GroupLeading
from client.event_loop.member_offsets import MemberOffsets
from client.membership.classic import ClassicMember
from client.membership.consumer import ConsumerMember
from client.membership.contract import Assigned, GroupProtocol, MemberSettings, Phase, TopicPattern
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.sync_group import SyncGroupRequest
from runtime.randomness import uuid_bytes
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from client.committing import OffsetAndMetadata
    from client.event_loop.cluster_client import AsyncClusterClient
    from protocol.schema import Request
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

BACKOFF: Final = Backoff(100, 1_000)
JOIN_MARGIN_MS: Final = 5_000
"""How much longer than a rebalance may take its answer is waited for."""
SETTINGS: Final = MemberSettings()


class PartitionListener(Protocol):
    """What the application does with its partitions. Exceptions of it end the member."""

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        """The application may read and commit these, too, until they are revoked."""

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        """The application has to let go of these, and may commit before it returns. `is_lost`: it may not, as somebody else
        may have them already."""


class GroupMember:
    """`cluster` stays the caller's, who closes it. Raises ValueError for a pattern of topics in a classic group."""

    def __init__(
        self,
        cluster: AsyncClusterClient,
        group_id: str,
        topics: Sequence[str] | TopicPattern,
        listener: PartitionListener,
        randomness: Randomness,
        settings: MemberSettings = SETTINGS,
    ) -> None:
        self.core: ClassicMember | ConsumerMember
        self._leading: GroupLeading | None = None
        if settings.protocol is GroupProtocol.CONSUMER:
            member_id = base64.urlsafe_b64encode(uuid_bytes(randomness)).decode().rstrip("=")
            self.core = ConsumerMember(group_id, member_id, topics, settings, self._backoff_ms)
        elif isinstance(topics, TopicPattern):
            raise ValueError("the members of a classic group name their topics")
        else:
            self.core = ClassicMember(group_id, topics, settings, self._backoff_ms)
            self._leading = GroupLeading(cluster, self.core)
        self._cluster = cluster
        self._listener = listener
        self._randomness = randomness
        self._wake = asyncio.Event()
        self._has_event = asyncio.Event()
        self._offsets = MemberOffsets(cluster, self.core, self._backoff_ms, self._on_commit_error)
        self._naming: asyncio.Task[None] | None = None
        self._tasks = TaskScope(f"member of {group_id}", on_failure=lambda _, error: self._on_failure(error))
        self._tasks.spawn(self._run(), name="requests")
        self._tasks.spawn(self._listen(), name="listener")

    @property
    def membership(self) -> GroupMembership:
        """Who commits now: for `Producer.send_offsets`."""
        return self.core.membership

    def polled(self) -> None:
        """The application asks for records. Raises FatalError; KafkaError for a topic that may not be read, once for each
        answer that says so."""
        self._check()
        self.core.polled(self._now_ms())
        self._wake.set()
        if isinstance(self.core, ConsumerMember) and self.core.complaint is not None:
            complaint, self.core.complaint = self.core.complaint, None
            raise complaint

    async def close(self) -> None:
        """Leave the group; a static member keeps its partitions until its session ends. The listener is not called any
        more."""
        await self._tasks.close()
        request = self._leave()
        if request is not None:
            await self._tell(request)

    # --- offsets ---

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of partitions that are assigned. Raises KafkaError: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH when somebody else reads these records again, as the group has rebalanced
        or does."""
        self._check()
        await self._offsets.commit(offsets)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of partitions, without those that have none. Offsets of open transactions are
        waited for (KIP-447). Raises KafkaError."""
        return await self._offsets.committed(partitions)

    # --- the tasks ---

    async def _run(self) -> None:
        core = self.core
        while core.phase is not Phase.FAILED:
            self._wake.clear()
            now_ms = self._now_ms()
            if self._leading is not None:
                self._leading.compare()
            while (request := core.next(now_ms)) is not None:
                if _is_farewell(request):
                    self._tasks.spawn(self._tell(request), name=request.api_name)
                else:
                    self._tasks.spawn(self._ask(request), name=request.api_name)
            if core.events:
                self._has_event.set()
            if isinstance(core, ConsumerMember) and core.unnamed_topic_ids and self._naming is None:
                self._naming = self._tasks.spawn(self._name_topics(core), name="topic names")
            wakeup_ms = core.wakeup_ms(now_ms)
            try:
                async with asyncio.timeout(None if wakeup_ms is None else (wakeup_ms - now_ms) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue
        self._has_event.set()

    async def _listen(self) -> None:
        core = self.core
        while True:
            await self._has_event.wait()
            self._has_event.clear()
            while core.events:
                event = core.events.popleft()
                if isinstance(event, Assigned):
                    await self._listener.assigned(event.partitions)
                else:
                    await self._listener.revoked(event.partitions, is_lost=event.is_lost)
                    core.let_go()
                    self._wake.set()

    async def _ask(self, request: Request) -> None:
        core = self.core
        is_waiting = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        timeout_ms = core.settings.max_poll_interval_ms + JOIN_MARGIN_MS if is_waiting else None
        response: Any
        try:
            response = await self._cluster.send_to_coordinator(
                KeyKind.GROUP, core.group_id, request, request.response_type,
                lane=WAITING_LANE if is_waiting else FIRST_LANE, timeout_ms=timeout_ms,
            )  # fmt: skip
        except OSError:
            must_find = core.unanswered(request, self._now_ms())
        except KafkaError as error:
            core.refused(error)
            must_find = False
        else:
            must_find = core.answered(request, response, self._now_ms())
        if must_find:
            self._cluster.forget_coordinator(KeyKind.GROUP, core.group_id)
        if self._leading is not None:
            await self._leading.assign()
        self._wake.set()

    async def _name_topics(self, core: ConsumerMember) -> None:
        """Ask brokers for the names of topics of an assignment until all are known: a broker may have heard of a topic
        later than the coordinator."""
        attempts = 0
        while core.unnamed_topic_ids:
            topics = [MetadataRequestTopic(topic_id=each, name=None) for each in sorted(core.unnamed_topic_ids)]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            try:
                response = await self._cluster.send_to_any(request, MetadataResponse)
            except OSError:
                pass
            else:
                core.named({each.topic_id: each.name for each in response.topics if each.name and not each.error_code})
                self._wake.set()
            if core.unnamed_topic_ids:
                attempts += 1
                await asyncio.sleep(self._backoff_ms(attempts) / 1000)
        self._naming = None

    def _leave(self) -> Request | None:
        if isinstance(self.core, ClassicMember):
            return self.core.leave("the consumer is being closed")
        return self.core.leave()

    async def _tell(self, request: Request) -> None:
        """Tell it once: without an answer the session ends by itself."""
        try:
            await self._cluster.send_to_coordinator(KeyKind.GROUP, self.core.group_id, request, request.response_type)
        except (OSError, KafkaError):
            return

    def _on_commit_error(self) -> None:
        self._wake.set()
        self._has_event.set()

    def _on_failure(self, error: BaseException) -> None:
        self.core.refused(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the listener failed: {error!r}"))
        self._wake.set()

    def _check(self) -> None:
        error = self.core.error
        if error is not None:
            raise FatalError(error.code, error.message)

    def _backoff_ms(self, attempts: int) -> int:
        return round(BACKOFF.pause_ms(max(attempts, 1), self._randomness))

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def _is_farewell(request: Request) -> bool:
    """Whether a request tells that the member leaves: its answer says nothing new."""
    match request:
        case ConsumerGroupHeartbeatRequest():
            return request.member_epoch < 0
        case _:
            return isinstance(request, LeaveGroupRequest)
