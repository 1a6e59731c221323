"""The group coordinator of this broker: the facade that handlers call, in front of the group shards.

Handlers call it with decoded requests. It finds the shard of the group, returns an error when another broker coordinates the
group or the shard is loading, and awaits the shard's response. Its `runtime` owns the shards.

Invariant: a request that is refused here gets an error code that clients of its API understand.
Source: Kafka GroupCoordinator.validateGroupStatus, GroupCoordinatorAdapter.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

from coordinator.group.append_errors import offset_append_error
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.classic.group import GroupState
from coordinator.group.classic.member_join import Join
from coordinator.group.classic.responses import join_error, sync_error
from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.consumer.description import ConsumerDescription, described_consumer_error
from coordinator.group.consumer.expressions import MayDescribe
from coordinator.group.consumer.group import ConsumerGroupState
from coordinator.group.consumer.membership import ConsumerHeartbeat, heartbeat_error
from coordinator.group.descriptions import described_error
from coordinator.group.group_removal import offset_delete_error
from coordinator.group.offset_commits import (
    NEWEST_COMMIT,
    FetchedOffsets,
    commit_response,
    transactional_commit_response,
)
from coordinator.group.offsets import CommittedOffset
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.group.share.description import ShareDescription, described_share_error
from coordinator.group.share.group import ShareGroupState
from coordinator.group.share.membership import ShareHeartbeat
from coordinator.group.share.membership import heartbeat_error as share_heartbeat_error
from coordinator.group.share.state_keeping import NoStateKeeper, StateKeeper
from coordinator.group_commands import GroupCommands, RunApart, run_here
from coordinator.group_observation import GroupMetrics, GroupObserver, NoGroupMetrics
from coordinator.runtime.contract import BatchProducer, Effect
from coordinator.runtime.coordinator_runtime import CoordinatorDependencies, CoordinatorRuntime, PeriodicTask
from coordinator.runtime.shard_context import Operation, ShardContext, ShardPorts, ShardState
from coordinator.share_group_administration import ShareGroupAdministration
from metadata.image import GROUP_METADATA_TOPIC, ClusterImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.primitives import uuid_to_text
from protocol.records.compression import Compression
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import OFFSET_COMMIT_SINCE
from runtime.randomness import uuid_bytes
from runtime.slices import Slices

GroupContext: TypeAlias = ShardContext[GroupShard]

NO_PRODUCER_ID = -1
# The first version of TxnOffsetCommit whose clients know TRANSACTION_ABORTABLE (KIP-890).
_ABORTABLE_SINCE = 4


class CommitVerification(Protocol):
    """Verifies that a partition of `__consumer_offsets` is part of a producer's transaction, before the first write."""

    async def verify(
        self, partition: int, transactional_id: str, producer: BatchProducer, *, adds: bool = False
    ) -> object | None:
        """The guard for the append; None when transactions are not verified. With `adds` the partition becomes part of the
        transaction.

        Raises: KafkaError when the partition is not part of the transaction, or its coordinator cannot say.
        """


class NoCommitVerification:
    """Verifies nothing, as `transaction.partition.verification.enable=false` does."""

    async def verify(
        self, partition: int, transactional_id: str, producer: BatchProducer, *, adds: bool = False
    ) -> object | None:
        return None


@dataclass(frozen=True, slots=True)
class GroupCoordinatorSettings:
    """`offsets.topic.compression.codec`, `offsets.commit.timeout.ms`, `offsets.retention.check.interval.ms`; and those of
    the groups."""

    groups: GroupSettings = field(default_factory=GroupSettings)
    compression: Compression = Compression.NONE
    commit_timeout_ms: int = 5_000
    retention_check_interval_ms: int = 600_000


class GroupCoordinator:
    """Owned by the broker. `start` before the first request, `close` after the last. Elections go to `runtime`."""

    def __init__(
        self,
        settings: GroupCoordinatorSettings,
        dependencies: CoordinatorDependencies,
        metrics: GroupMetrics | None = None,
        verification: CommitVerification | None = None,
        configs: GroupConfigs | None = None,
        run_apart: RunApart = run_here,
        keeper: StateKeeper | None = None,
    ) -> None:
        self.configs = configs or GroupConfigs()
        self._topics = GroupTopics()
        keeper = keeper or NoStateKeeper()
        commands = GroupCommands(dependencies.clock, dependencies.tasks, self._topics, keeper, run_apart)
        self._groups = settings.groups
        self._verification = verification or NoCommitVerification()
        self._waiting = WaitingBytes(settings.groups.waiting_max_bytes)
        self._clock = dependencies.clock
        self._randomness = dependencies.randomness
        self._tasks = dependencies.tasks
        ports: ShardPorts[GroupShard] = ShardPorts(
            topic=GROUP_METADATA_TOPIC,
            clock=dependencies.clock,
            timer=dependencies.timer,
            writer=dependencies.writer,
            reader=dependencies.reader,
            observe=GroupObserver(metrics or NoGroupMetrics()).observe,
            carry_out=commands.carry_out,
            compression=settings.compression,
            commit_timeout_ms=settings.commit_timeout_ms,
        )
        self.runtime = CoordinatorRuntime(
            lambda partition, _leader_epoch: GroupShard(
                partition, settings.groups, self._waiting, self.configs, self._topics
            ),
            ports,
            dependencies.tasks,
            dependencies.partitions_count,
            [PeriodicTask("expire offsets", settings.retention_check_interval_ms, _expire_groups)],
        )
        self.shares = ShareGroupAdministration(self.runtime, keeper)

    def start(self) -> None:
        self.runtime.start()

    def close(self) -> None:
        self.runtime.close()

    def partition_for(self, group_id: str) -> int | None:
        """The partition of `__consumer_offsets` that `group_id` hashes to; None while the topic is not known."""
        return self.runtime.partition_for(group_id)

    # --- events of other components --------------------------------------------------------------------------------

    def on_transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """Make the offset commits of the transaction visible, or drop them. `partition` is of `__consumer_offsets`."""
        self.runtime.on_transaction_ended(partition, producer_id, committed=committed)

    def on_partitions_deleted(self, places: Iterable[TopicPartition]) -> None:
        """The partitions were deleted from the cluster: delete their offsets."""
        deleted = list(places)
        for context in self.runtime.contexts():
            context.run(lambda shard, now_ms: shard.on_partitions_deleted(deleted, now_ms))

    def on_image_changed(self, image: ClusterImage) -> None:
        """The topics or brokers of the cluster have changed: groups that read changed topics look again."""
        changes = self._topics.update(image, self._clock.wall_ms())
        if changes:
            for context in self.runtime.contexts():
                context.run(lambda shard, now_ms: shard.on_topics_changed(changes, now_ms))

    # --- membership ------------------------------------------------------------------------------------------------

    async def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        api_version: int,
        client_id: str,
        client_host: str,
        may_describe: MayDescribe = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Returns when what the response tells is stored. `may_describe` decides which topics an expression matches."""
        context = self._shard_of(request.group_id, may_be_empty=True)
        if isinstance(context, ErrorCode):
            return heartbeat_error(context)
        new_member_id = uuid_to_text(uuid_bytes(self._randomness))

        def heartbeat(
            shard: GroupShard, waiter: asyncio.Future[ConsumerGroupHeartbeatResponse], now_ms: int
        ) -> list[Effect]:
            beat = ConsumerHeartbeat(request, api_version, client_id, client_host, new_member_id, waiter, may_describe)
            return shard.consumer_heartbeat(beat, now_ms)

        return await self.runtime.run(context, heartbeat)

    async def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> ShareGroupHeartbeatResponse:
        """Returns when what the response tells is stored."""
        context = self._shard_of(request.group_id, may_be_empty=True)
        if isinstance(context, ErrorCode):
            return share_heartbeat_error(context)

        def heartbeat(
            shard: GroupShard, waiter: asyncio.Future[ShareGroupHeartbeatResponse], now_ms: int
        ) -> list[Effect]:
            return shard.share_heartbeat(ShareHeartbeat(request, client_id, client_host, waiter), now_ms)

        return await self.runtime.run(context, heartbeat)

    def refuses(self, group_instance_id: str | None) -> bool:
        """Whether this instance id is refused: some broker of the cluster may not know static members (KIP-345)."""
        return group_instance_id is not None and not self._groups.version.supports_static_members

    async def join_group(
        self, request: JoinGroupRequest, api_version: int, client_id: str, client_host: str
    ) -> JoinGroupResponse:
        """Returns when the rebalance is over: seconds, or minutes. Clears the large fields of the request."""
        context = self._shard_of(request.group_id)
        if isinstance(context, ErrorCode):
            return join_error(request.member_id, context)
        unique = str(uuid.UUID(bytes=self._randomness.randbytes(16), version=4))

        def join(shard: GroupShard, waiter: asyncio.Future[JoinGroupResponse], now_ms: int) -> list[Effect]:
            effects = shard.join(Join(request, api_version, client_id, client_host, unique, waiter), now_ms)
            request.protocols, request.reason = (
                [],
                None,
            )  # the member has them; the request stays in memory until its response is sent
            return effects

        return await self.runtime.run(context, join)

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Returns when the assignment is stored. Clears the large fields of the request."""
        context = self._shard_of(request.group_id)
        if context is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance was soft state and is lost: the member must join again. Old clients do not expect
            # COORDINATOR_LOAD_IN_PROGRESS here.
            return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        if isinstance(context, ErrorCode):
            return sync_error(context)

        def sync(shard: GroupShard, waiter: asyncio.Future[SyncGroupResponse], now_ms: int) -> list[Effect]:
            effects = shard.sync(request, waiter, now_ms)
            request.assignments = []  # they are being appended, or not needed
            return effects

        return await self.runtime.run(context, sync)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        context = self._shard_of(request.group_id)
        if context is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # sessions start when the group is loaded
        if isinstance(context, ErrorCode):
            return context
        outcome = [ErrorCode.NONE]

        def heartbeat(shard: GroupShard, now_ms: int) -> list[Effect]:
            outcome[0], effects = shard.heartbeat(request, now_ms)
            return effects

        context.run(heartbeat)
        return outcome[0]

    def leave_group(self, group_id: str, leaving: list[MemberIdentity]) -> LeaveGroupResponse:
        context = self._shard_of(group_id)
        if isinstance(context, ErrorCode):
            return LeaveGroupResponse(error_code=context)
        responses: list[LeaveGroupResponse] = []

        def leave(shard: GroupShard, now_ms: int) -> list[Effect]:
            response, effects = shard.leave(group_id, leaving, now_ms)
            responses.append(response)
            return effects

        context.run(leave)
        return responses[0]

    # --- offsets ---------------------------------------------------------------------------------------------------

    async def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int = NEWEST_COMMIT
    ) -> OffsetCommitResponse:
        """`request` names existing partitions only."""
        context = self._shard_of(request.group_id, may_be_empty=True)
        if isinstance(context, ErrorCode):
            return commit_response(request, context)
        return await self.runtime.run(
            context, lambda shard, waiter, now_ms: shard.commit_offsets(request, waiter, now_ms, api_version)
        )

    async def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> TxnOffsetCommitResponse:
        """Return when the offsets are stored; the marker of the transaction makes them visible. `request` names existing
        partitions only.

        The transaction is verified first: the membership that counts is that of the moment of the append.
        """
        context = self._shard_of(request.group_id)
        if isinstance(context, ErrorCode):
            return transactional_commit_response(request, context)
        producer = BatchProducer(request.producer_id, request.producer_epoch)
        try:
            guard = await self._verification.verify(
                context.partition, request.transactional_id, producer, adds=api_version >= OFFSET_COMMIT_SINCE
            )
        except KafkaError as refused:
            error = refused.code
            if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_SINCE:
                error = ErrorCode.INVALID_TXN_STATE
            return transactional_commit_response(request, offset_append_error(error))
        context = self._shard_of(request.group_id)  # its leadership may have ended meanwhile
        if isinstance(context, ErrorCode):
            return transactional_commit_response(request, context)
        # As in Apache Kafka, which verifies such a commit too, and then stores it outside of a transaction.
        stored_for = None if request.producer_id == NO_PRODUCER_ID else replace(producer, guard=guard)
        return await self.runtime.run(
            context,
            lambda shard, waiter, now_ms: shard.commit_offsets_in_transaction(request, stored_for, waiter, now_ms),
        )

    def fetch_offsets(self, wanted: OffsetFetchRequestGroup, *, require_stable: bool) -> FetchedOffsets:
        context = self._shard_of(wanted.group_id, may_be_empty=True)
        if isinstance(context, ErrorCode):
            return FetchedOffsets(context, {})
        return context.shard.fetch_offsets(wanted, require_stable=require_stable)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """`request` names existing partitions only."""
        context = self._shard_of(request.group_id)
        if isinstance(context, ErrorCode):
            return offset_delete_error(context)
        context.run_due(context.shard.sessions_of(request.group_id))
        return await self.runtime.run(
            context, lambda shard, waiter, now_ms: shard.delete_offsets(request, waiter, now_ms)
        )

    # --- groups ----------------------------------------------------------------------------------------------------

    def describe_consumer_group(self, group_id: str) -> ConsumerDescription:
        context = self._shard_of(group_id)
        if isinstance(context, ErrorCode):
            return described_consumer_error(group_id, context)
        return context.shard.describe_consumer(group_id)

    def describe_share_group(self, group_id: str) -> ShareDescription:
        context = self._shard_of(group_id)
        if isinstance(context, ErrorCode):
            return described_share_error(group_id, context)
        return context.shard.describe_share(group_id)

    def describe_group(self, group_id: str) -> DescribedGroup:
        context = self._shard_of(group_id, may_be_empty=True)
        if isinstance(context, ErrorCode):
            return described_error(group_id, context)
        return context.shard.describe(group_id)

    async def list_groups(self, states: Iterable[str], types: Iterable[str]) -> tuple[ErrorCode, list[ListedGroup]]:
        """All groups of the partitions that this broker leads; COORDINATOR_LOAD_IN_PROGRESS when some are still loading."""
        if not self.runtime.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        error = ErrorCode.NONE
        groups: list[ListedGroup] = []
        slices = Slices(self._clock)
        for context in self.runtime.contexts():
            if context.state is ShardState.LOADING:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            elif context.state is ShardState.ACTIVE:
                groups += context.shard.list_groups(wanted_states, wanted_types)
            await slices.yield_if_due()
        return error, groups

    async def delete_groups(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        """One result for each of `group_ids`, which are distinct."""
        waiting: list[asyncio.Future[DeletableGroupResult]] = []
        slices = Slices(self._clock)
        for group_id in group_ids:
            future: asyncio.Future[DeletableGroupResult] = asyncio.get_running_loop().create_future()
            context = self._shard_of(group_id, may_be_empty=True)
            if isinstance(context, ErrorCode):
                future.set_result(DeletableGroupResult(group_id=group_id, error_code=context))
            else:
                context.run_due(context.shard.sessions_of(group_id))
                if context.shard.is_share_group(group_id):
                    future = self._tasks.spawn(self._delete_share_group(group_id), name=f"delete {group_id}")
                else:
                    context.run(_deletion(group_id, future))
            waiting.append(future)
            await slices.yield_if_due()
        return [await future for future in waiting]

    async def _delete_share_group(self, group_id: str) -> DeletableGroupResult:
        """Its states first: nothing else knows of them when the group is gone."""
        try:
            await self.shares.forget(group_id)
        except KafkaError as refused:
            return DeletableGroupResult(group_id=group_id, error_code=refused.code)
        context = self._shard_of(group_id)
        if isinstance(context, ErrorCode):
            return DeletableGroupResult(group_id=group_id, error_code=context)
        return await self.runtime.run(
            context, lambda shard, waiter, now_ms: shard.delete_group(group_id, waiter, now_ms)
        )

    # --- metrics ---------------------------------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """The memory of requests that wait for their groups."""
        return self._waiting.used_bytes

    def state_counts(self) -> dict[GroupState, int]:
        counts = dict.fromkeys(GroupState, 0)
        for shard in self.runtime.active_shards():
            for state, count in shard.state_counts().items():
                counts[state] += count
        return counts

    def consumer_state_counts(self) -> dict[ConsumerGroupState, int]:
        counts = dict.fromkeys(ConsumerGroupState, 0)
        for shard in self.runtime.active_shards():
            for state, count in shard.consumer_state_counts().items():
                counts[state] += count
        return counts

    def share_state_counts(self) -> dict[ShareGroupState, int]:
        counts = dict.fromkeys(ShareGroupState, 0)
        for shard in self.runtime.active_shards():
            for state, count in shard.share_state_counts().items():
                counts[state] += count
        return counts

    def share_group_ids(self) -> list[str]:
        """Return the share groups that this broker coordinates."""
        return [group_id for shard in self.runtime.active_shards() for group_id in shard.share_group_ids()]

    def offsets_count(self) -> int:
        return sum(shard.offsets_count() for shard in self.runtime.active_shards())

    def committed_offsets(self) -> Iterator[tuple[str, dict[TopicPartition, CommittedOffset]]]:
        """Yield the committed offsets of each group that this broker coordinates. Groups may change between two steps."""
        for shard in self.runtime.active_shards():
            yield from shard.committed_offsets()

    def coordinates(self, group_id: str) -> bool:
        """Whether this broker answers for the group now."""
        return not isinstance(self.runtime.shard_of(group_id), ErrorCode)

    # --- finding a shard -------------------------------------------------------------------------------------------

    def _shard_of(self, group_id: str, *, may_be_empty: bool = False) -> GroupContext | ErrorCode:
        """Commits, fetches and administration accept the empty group id, which old clients used."""
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        return self.runtime.shard_of(group_id)


def _deletion(group_id: str, waiter: asyncio.Future[DeletableGroupResult]) -> Operation[GroupShard]:
    return lambda shard, now_ms: shard.delete_group(group_id, waiter, now_ms)


def _expire_groups(shard: GroupShard) -> Iterator[Operation[GroupShard]]:
    """One expiry operation for each group."""
    for group_id in shard.group_ids():
        yield partial(_expire_group, group_id)


def _expire_group(group_id: str, shard: GroupShard, now_ms: int) -> list[Effect]:
    return shard.expire(group_id, now_ms)
