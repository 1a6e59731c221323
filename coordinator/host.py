"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets` that it leads.

Handlers call it with decoded requests. It finds the shard of the group, refuses when that is elsewhere or still loading,
and waits for the answer; what the answer is, the shard decides.

Rules: asyncio lives here and in `shard_host`. The replication layer tells elections and resignations.
Invariants: a group is served by the one shard of its partition, in the leader epoch in which it was loaded; the number of
partitions is the topic's own, as it was when this broker first heard of it, and no group is served before.
Source: Kafka GroupCoordinator.validateGroupStatus, GroupCoordinatorAdapter, GroupMetadataManager (owned partitions).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from coordinator.group.committing import FetchedOffsets, commit_response
from coordinator.group.describing import described_error
from coordinator.group.group import GroupState
from coordinator.group.joining import Join
from coordinator.group.removing import offset_delete_error
from coordinator.group.responses import join_error, sync_error
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.observation import GroupMetrics, GroupObserver, NoGroupMetrics
from coordinator.partitioner import partition_for
from coordinator.shard import Effect, LogReader, LogWriter
from coordinator.shard_host import ShardHost, ShardPorts, ShardState
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.records.compression import Compression
from protocol.schema import Message
from runtime.clock import Clock
from runtime.randomness import Randomness
from runtime.slices import Slices
from runtime.tasks import TaskScope
from runtime.timer import Timer, TimerEntry

GROUP_METADATA_TOPIC = "__consumer_offsets"

GroupHost: TypeAlias = ShardHost[GroupShard]
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class GroupCoordinatorSettings:
    """`offsets.topic.*`, `offsets.commit.timeout.ms`, `offsets.retention.check.interval.ms`; and those of the groups."""

    groups: GroupSettings = field(default_factory=GroupSettings)
    partitions_count: int = 50
    compression: Compression = Compression.NONE
    commit_timeout_ms: int = 5_000
    retention_check_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class CoordinatorDoors:
    """The doors to the world, and the replicated log."""

    clock: Clock
    timer: Timer
    randomness: Randomness
    tasks: TaskScope
    writer: LogWriter
    reader: LogReader


class GroupCoordinator:
    """Owned by the broker. `start` before the first request, `close` after the last."""

    def __init__(
        self, settings: GroupCoordinatorSettings, doors: CoordinatorDoors, metrics: GroupMetrics | None = None
    ) -> None:
        self._settings = settings
        self._doors = doors
        self._partitions_count: int | None = None
        self._topic_partitions_count: Callable[[], int | None] = lambda: settings.partitions_count
        self._hosts: dict[int, GroupHost] = {}
        self._is_active = False
        self._expiry_timer: TimerEntry | None = None
        self._ports = ShardPorts(
            clock=doors.clock,
            timer=doors.timer,
            writer=doors.writer,
            reader=doors.reader,
            observe=GroupObserver(metrics or NoGroupMetrics()).observe,
            compression=settings.compression,
            commit_timeout_ms=settings.commit_timeout_ms,
        )

    def start(self, partitions_count: Callable[[], int | None] | None = None) -> None:
        """`partitions_count` answers how many partitions the topic has, None as long as that is not known: a setting may
        have changed since it was made, or be another one on the broker that made it. Not given: as the settings say."""
        if partitions_count is not None:
            self._topic_partitions_count = partitions_count
        self._is_active = True
        self._schedule_expiry(0)

    def close(self) -> None:
        self._is_active = False
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()

    def partition_for(self, group_id: str) -> int | None:
        """None as long as the topic is not known."""
        if self._partitions_count is None:
            self._partitions_count = self._topic_partitions_count()
            if self._partitions_count is None:
                return None
        return partition_for(group_id, self._partitions_count)

    # --- elections -------------------------------------------------------------------------------------------------

    def on_leadership(self, partition: int, leader_epoch: int) -> None:
        """This broker leads `partition` of the topic: load it, unless it is here already."""
        known = self._hosts.get(partition)
        if known is not None and known.state is not ShardState.FAILED:
            # Led before and since: what is in memory is what is in the log.
            known.leader_epoch = max(known.leader_epoch, leader_epoch)
            return
        shard = GroupShard(partition, self._settings.groups)
        host = self._hosts[partition] = ShardHost(partition, leader_epoch, shard, self._ports)
        self._doors.tasks.spawn(host.load(), name=f"load {GROUP_METADATA_TOPIC}-{partition}")

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker leads `partition` no more, since `leader_epoch` (None or negative: not told)."""
        host = self._hosts.get(partition)
        if host is None or (leader_epoch is not None and 0 <= leader_epoch < host.leader_epoch):
            return
        del self._hosts[partition]
        host.close()

    def on_transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """The marker that ends a transaction of `producer_id` is committed in `partition` of the topic."""
        host = self._hosts.get(partition)
        if host is not None:
            host.end_transaction(producer_id, committed=committed)

    def on_partitions_deleted(self, places: Iterable[tuple[str, int]]) -> None:
        """(topic, partition) that are gone from the cluster: their offsets go too."""
        gone = list(places)
        for host in list(self._hosts.values()):
            host.run(lambda shard, now_ms: shard.on_partitions_deleted(gone, now_ms))

    # --- membership ------------------------------------------------------------------------------------------------

    def refuses(self, group_instance_id: str | None) -> bool:
        """Whether this would be a static member, which some broker of the cluster may not know (KIP-345)."""
        return group_instance_id is not None and not self._settings.groups.version.supports_static_members

    async def join_group(
        self, request: JoinGroupRequest, api_version: int, client_id: str, client_host: str
    ) -> JoinGroupResponse:
        """Returns when the rebalance is over: seconds, or minutes."""
        host = self._host_of(request.group_id)
        if isinstance(host, ErrorCode):
            return join_error(request.member_id, host)
        unique = str(uuid.UUID(bytes=self._doors.randomness.randbytes(16), version=4))

        def join(future: asyncio.Future[JoinGroupResponse]) -> _GroupOperation:
            joining = Join(request, api_version, client_id, client_host, unique, future)
            return lambda shard, now_ms: shard.join(joining, now_ms)

        return await self._answered(host, join)

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        host = self._host_of(request.group_id)
        if host is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance was soft state and is lost: the member must join again. Old clients know no "loading" here.
            return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        if isinstance(host, ErrorCode):
            return sync_error(host)

        def sync(future: asyncio.Future[SyncGroupResponse]) -> _GroupOperation:
            return lambda shard, now_ms: shard.sync(request, future, now_ms)

        return await self._answered(host, sync)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        host = self._host_of(request.group_id)
        if host is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # sessions start when the group is loaded
        if isinstance(host, ErrorCode):
            return host
        outcome = [ErrorCode.NONE]

        def heartbeat(shard: GroupShard, now_ms: int) -> list[Effect]:
            outcome[0], effects = shard.heartbeat(request, now_ms)
            return effects

        host.run(heartbeat)
        return outcome[0]

    def leave_group(self, group_id: str, leaving: list[MemberIdentity]) -> LeaveGroupResponse:
        host = self._host_of(group_id)
        if isinstance(host, ErrorCode):
            return LeaveGroupResponse(error_code=host)
        responses: list[LeaveGroupResponse] = []

        def leave(shard: GroupShard, now_ms: int) -> list[Effect]:
            response, effects = shard.leave(group_id, leaving, now_ms)
            responses.append(response)
            return effects

        host.run(leave)
        return responses[0]

    # --- offsets ---------------------------------------------------------------------------------------------------

    async def commit_offsets(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """`request` names existing partitions only."""
        host = self._host_of(request.group_id, may_be_empty=True)
        if isinstance(host, ErrorCode):
            return commit_response(request, host)

        def commit(future: asyncio.Future[OffsetCommitResponse]) -> _GroupOperation:
            return lambda shard, now_ms: shard.commit_offsets(request, future, now_ms)

        return await self._answered(host, commit)

    def fetch_offsets(self, wanted: OffsetFetchRequestGroup, *, require_stable: bool) -> FetchedOffsets:
        host = self._host_of(wanted.group_id, may_be_empty=True)
        if isinstance(host, ErrorCode):
            return FetchedOffsets(host, {})
        return host.shard.fetch_offsets(wanted, require_stable=require_stable)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """`request` names existing partitions only."""
        host = self._host_of(request.group_id)
        if isinstance(host, ErrorCode):
            return offset_delete_error(host)

        host.run_due(host.shard.sessions_of(request.group_id))

        def delete(future: asyncio.Future[OffsetDeleteResponse]) -> _GroupOperation:
            return lambda shard, now_ms: shard.delete_offsets(request, future, now_ms)

        return await self._answered(host, delete)

    # --- groups ----------------------------------------------------------------------------------------------------

    def describe_group(self, group_id: str) -> DescribedGroup:
        host = self._host_of(group_id, may_be_empty=True)
        return described_error(group_id, host) if isinstance(host, ErrorCode) else host.shard.describe(group_id)

    async def list_groups(self, states: Iterable[str], types: Iterable[str]) -> tuple[ErrorCode, list[ListedGroup]]:
        """All groups of the partitions led here; an error beside them says that more are being loaded."""
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        error = ErrorCode.NONE
        groups: list[ListedGroup] = []
        slices = Slices(self._doors.clock)
        for host in list(self._hosts.values()):
            if host.state is ShardState.LOADING:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            elif host.state is ShardState.ACTIVE:
                groups += host.shard.list_groups(wanted_states, wanted_types)
            await slices.yield_if_due()
        return error, groups

    async def delete_groups(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        """One result for each of `group_ids`, which are distinct."""
        waiting: list[asyncio.Future[DeletableGroupResult]] = []
        slices = Slices(self._doors.clock)
        for group_id in group_ids:
            future: asyncio.Future[DeletableGroupResult] = asyncio.get_running_loop().create_future()
            waiting.append(future)
            host = self._host_of(group_id, may_be_empty=True)
            if isinstance(host, ErrorCode):
                future.set_result(DeletableGroupResult(group_id=group_id, error_code=host))
            else:
                host.run_due(host.shard.sessions_of(group_id))
                host.run(_delete_group(group_id, future))
            await slices.yield_if_due()
        return [await future for future in waiting]

    # --- metrics ---------------------------------------------------------------------------------------------------

    def state_counts(self) -> dict[GroupState, int]:
        counts = dict.fromkeys(GroupState, 0)
        for shard in self._active_shards():
            for state, count in shard.state_counts().items():
                counts[state] += count
        return counts

    def offsets_count(self) -> int:
        return sum(shard.offsets_count() for shard in self._active_shards())

    def _active_shards(self) -> list[GroupShard]:
        return [host.shard for host in self._hosts.values() if host.state is ShardState.ACTIVE]

    # --- expiry ----------------------------------------------------------------------------------------------------

    def _schedule_expiry(self, delay_ms: int) -> None:
        self._expiry_timer = self._doors.timer.schedule(delay_ms, self._on_expiry_timer)

    def _on_expiry_timer(self) -> None:
        self._doors.tasks.spawn(self._expire(), name="expire offsets")

    async def _expire(self) -> None:
        """Look at every group once. Rescheduled only then, so that two looks never overlap."""
        slices = Slices(self._doors.clock)
        for host in list(self._hosts.values()):
            if host.state is not ShardState.ACTIVE:
                continue
            for group_id in host.shard.group_ids():
                host.run(_expire_group(group_id))
                await slices.yield_if_due()
        if self._is_active:
            self._schedule_expiry(self._settings.retention_check_interval_ms)

    # --- the way to a shard ----------------------------------------------------------------------------------------

    def _host_of(self, group_id: str, *, may_be_empty: bool = False) -> GroupHost | ErrorCode:
        """Commits, fetches and administration take the empty group id, which old clients used."""
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(group_id)
        host = None if partition is None else self._hosts.get(partition)
        if host is None:
            return ErrorCode.NOT_COORDINATOR
        match host.state:
            case ShardState.ACTIVE:
                return host
            case ShardState.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case _:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def _answered(self, host: GroupHost, operation: Callable[[asyncio.Future[M]], _GroupOperation]) -> M:
        future: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        host.run(operation(future))
        return await future


_GroupOperation: TypeAlias = Callable[[GroupShard, int], list[Effect]]


def _delete_group(group_id: str, future: asyncio.Future[DeletableGroupResult]) -> _GroupOperation:
    return lambda shard, now_ms: shard.delete_group(group_id, future, now_ms)


def _expire_group(group_id: str) -> _GroupOperation:
    return lambda shard, now_ms: shard.expire(group_id, now_ms)
