"""A member of a classic group on an event loop: the shell of `client.membership`, with commits and committed offsets.

    member = GroupMember(cluster, "group", ["topic"], listener, randomness)
    member.polled()                       whenever the application asks for records, or it leaves
    await member.commit(offsets)          or `member.membership` for `Producer.send_offsets`
    await member.close()

Rules: the listener is called by one task, in the order of the events; a revocation is over when its call returns, and the
group waits for that. JoinGroup and SyncGroup wait at the broker, on a connection of their own. The leader has the group
rebalance when a topic has other partitions than it assigned.
Errors: KafkaError for what failed for good: FatalError when the member may do nothing any more.
Source: Kafka ConsumerCoordinator, AbstractCoordinator with its heartbeat thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from client.admin.steps import KeyKind
from client.backoff import Backoff
from client.committing import GroupMembership, OffsetAndMetadata
from client.errors import FatalError
from client.event_loop.cluster_client import FIRST_LANE, WAITING_LANE
from client.membership.member import Assigned, ClassicMember, MemberSettings, Phase
from client.membership.verdicts import MemberVerdict
from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from protocol.messages.sync_group import SyncGroupRequest
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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
        """The application may read and commit these, and no others."""

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        """The application has to let go of these, and may commit before it returns. `is_lost`: it may not, as somebody else
        may have them already."""


class GroupMember:
    """`cluster` stays the caller's, who closes it."""

    def __init__(
        self,
        cluster: AsyncClusterClient,
        group_id: str,
        topics: Sequence[str],
        listener: PartitionListener,
        randomness: Randomness,
        settings: MemberSettings = SETTINGS,
    ) -> None:
        self.core = ClassicMember(group_id, topics, settings, self._backoff_ms)
        self._cluster = cluster
        self._listener = listener
        self._randomness = randomness
        self._assigned_counts: dict[str, int] = {}  # of the generation that this member leads
        self._wake = asyncio.Event()
        self._has_event = asyncio.Event()
        self._tasks = TaskScope(f"member of {group_id}", on_failure=lambda _, error: self._on_failure(error))
        self._tasks.spawn(self._run(), name="requests")
        self._tasks.spawn(self._listen(), name="listener")

    @property
    def membership(self) -> GroupMembership:
        """Who commits now: for `Producer.send_offsets`."""
        return self.core.membership

    def polled(self) -> None:
        """The application asks for records. Raises FatalError."""
        self._check()
        self.core.polled(self._now_ms())
        self._wake.set()

    async def close(self) -> None:
        """Leave the group, but for a static member. The listener is not called any more."""
        await self._tasks.close()
        request = self.core.leave("the consumer is being closed")
        if request is not None:
            await self._leave(request)

    # --- offsets ---

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of partitions that are assigned. Raises KafkaError: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION and
        UNKNOWN_MEMBER_ID when somebody else reads these records again, as the group has rebalanced or does."""
        self._check()
        if not self.core.partitions or not set(offsets).issubset(self.core.partitions):
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "these partitions are not assigned to this member any more")
        membership, left, attempts = self.membership, dict(offsets), 0
        while left:
            try:
                response = await self._cluster.send_to_coordinator(
                    KeyKind.GROUP, membership.group_id, _commit_request(membership, left), OffsetCommitResponse
                )
            except OSError:
                self._forget_coordinator()
            else:
                self._on_committed(membership, response, left)
            if left:
                attempts += 1
                await asyncio.sleep(self._backoff_ms(attempts) / 1000)

    def _on_committed(
        self,
        membership: GroupMembership,
        response: OffsetCommitResponse,
        left: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Take what was committed out of `left`. Raises KafkaError."""
        for topic in response.topics:
            for row in topic.partitions:
                code = ErrorCode.of(row.error_code)
                match self.core.commit_answered(membership, code):
                    case MemberVerdict.DONE:
                        left.pop((topic.name, row.partition_index), None)
                    case MemberVerdict.FIND:
                        self._forget_coordinator()
                    case MemberVerdict.REPEAT:
                        pass
                    case _:
                        self._wake.set()
                        self._has_event.set()
                        raise KafkaError(code, f"{topic.name}-{row.partition_index}: {code.message}")

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of partitions, without those that have none. Offsets of open transactions are waited for
        (KIP-447). Raises KafkaError."""
        topics: dict[str, list[int]] = {}
        for name, partition in partitions:
            topics.setdefault(name, []).append(partition)
        request = OffsetFetchRequest(
            group_id=self.core.group_id,
            topics=[OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in topics.items()],
            require_stable=True,
        )
        attempts = 0
        while True:
            try:
                response = await self._cluster.send_to_coordinator(
                    KeyKind.GROUP, self.core.group_id, request, OffsetFetchResponse, max_version=7
                )
            except OSError:
                self._forget_coordinator()
            else:
                rows = {(topic.name, row.partition_index): row for topic in response.topics for row in topic.partitions}
                codes = {
                    ErrorCode.of(code) for code in (response.error_code, *(row.error_code for row in rows.values()))
                }
                remedies = {code: remedy_of(code) for code in codes - {ErrorCode.NONE}}
                failed = [code for code, remedy in remedies.items() if remedy is Remedy.FAIL]
                if failed:
                    raise KafkaError(failed[0])
                if not remedies:
                    return {
                        key: OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata)
                        for key, row in rows.items()
                        if row.committed_offset >= 0
                    }
                if Remedy.FIND_COORDINATOR in remedies.values():
                    self._forget_coordinator()
            attempts += 1
            await asyncio.sleep(self._backoff_ms(attempts) / 1000)

    # --- the tasks ---

    async def _run(self) -> None:
        core = self.core
        while core.phase is not Phase.FAILED:
            self._wake.clear()
            now_ms = self._now_ms()
            if core.is_leader and core.phase is Phase.STABLE:
                self._cluster.watch_topics(self._assigned_counts)
                if self._counts(self._assigned_counts) != self._assigned_counts:
                    core.rejoin()
            while (request := core.next(now_ms)) is not None:
                if isinstance(request, LeaveGroupRequest):
                    self._tasks.spawn(self._leave(request), name="LeaveGroup")
                else:
                    self._tasks.spawn(self._ask(request), name=request.api_name)
            if core.events:
                self._has_event.set()
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
            self._forget_coordinator()
        if core.phase is Phase.ASSIGNING:
            await self._assign()
        self._wake.set()

    async def _assign(self) -> None:
        """Assign the partitions when all topics are known, or are known not to be there."""
        core = self.core
        self._cluster.watch_topics(core.wanted_topics)
        await self._cluster.refresh()
        if core.phase is Phase.ASSIGNING:
            self._assigned_counts = self._counts(core.wanted_topics)
            core.assign({topic: count for topic, count in self._assigned_counts.items() if count})

    def _counts(self, topics: Collection[str]) -> dict[str, int]:
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}

    async def _leave(self, request: LeaveGroupRequest) -> None:
        """Tell it once: without an answer the session ends by itself."""
        try:
            await self._cluster.send_to_coordinator(KeyKind.GROUP, self.core.group_id, request, LeaveGroupResponse)
        except (OSError, KafkaError):
            return

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator(KeyKind.GROUP, self.core.group_id)

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


def _commit_request(
    membership: GroupMembership, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), (offset, leader_epoch, metadata) in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=membership.group_id,
        generation_id_or_member_epoch=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
