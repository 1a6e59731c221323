"""The groups of one partition of `__consumer_offsets`: requests in, effects out, records replayed.

It implements the contract's `Shard` for groups. Each operation finds its group, calls the module for it, and returns the
effects in order. The caller has checked that this broker coordinates the group. Members of both protocols
may be in a consumer group; a group becomes one of the other kind as `conversion` says, share groups excepted.

Rules: no IO, no clock, no randomness, no await. `replay` alone makes offsets and stored metadata of classic groups change;
consumer and share groups change with the operation, and back when its records are refused.
Invariant: `_groups` is what replaying the log yields, plus soft state; a reloaded shard has the same offsets, open
transactions and stored groups (`durable_state`).
Source: Kafka GroupCoordinator and GroupMetadataManager in the form of the newer GroupCoordinatorShard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from coordinator.group.assigned.appends import Appends
from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.assigned.entries import EntryKey
from coordinator.group.assigned.entry_records import Entry, read_entry
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import ComputedTarget
from coordinator.group.assigned.topics import GroupTopics, TopicChanges
from coordinator.group.classic.assignment_sync import AssignmentSync
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.member_join import Join, MemberJoin
from coordinator.group.classic.member_leave import MemberLeave
from coordinator.group.classic.rebalance import JoinTimer, Rebalance, SessionTimer, SyncTimer
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID, join_error, sync_error
from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.classic.waiting_requests import refuse_waiting
from coordinator.group.consumer.expressions import ResolvedExpressions
from coordinator.group.consumer.group import ConsumerGroup, ConsumerGroupState, DurableConsumerGroup
from coordinator.group.consumer.membership import ConsumerHeartbeat, ConsumerSessionTimer, RevocationTimer
from coordinator.group.consumer.timers import FetchAssignmentTimer, RejoinTimer
from coordinator.group.consumer.validation import COMMIT_WITH_EPOCH_SINCE
from coordinator.group.consumer_operations import ConsumerDescription, ConsumerOperations
from coordinator.group.conversion import Conversion
from coordinator.group.descriptions import described, is_listed, listed
from coordinator.group.events import RebalanceReason, RecordSkipped
from coordinator.group.group_removal import GroupRemoval
from coordinator.group.groups import AnyGroup, Groups
from coordinator.group.offset_commits import (
    NEWEST_COMMIT,
    FetchedOffsets,
    OffsetCommits,
    commit_response,
    fetch_offsets,
    transactional_commit_response,
)
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import (
    GroupKey,
    OffsetKey,
    UnknownKey,
    members_of,
    read_group_value,
    read_key,
    read_offset_value,
)
from coordinator.group.settings import GroupSettings
from coordinator.group.share.group import DurableShareGroup, ShareGroup, ShareGroupState
from coordinator.group.share.membership import ShareHeartbeat, ShareSessionTimer
from coordinator.group.share.state_keeping import InitializedShareStates
from coordinator.group.share_operations import ShareDescription, ShareOperations
from coordinator.runtime.contract import (
    BatchPosition,
    BatchProducer,
    CoordinatorRecord,
    Effect,
    Outbox,
    Respond,
    Result,
    TimerKey,
    Waiter,
)
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.primitives import DecodeError
from protocol.stored.group_metadata import GroupMetadataValue
from protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class DurableGroup:
    """The state of a group that survives a change of coordinator."""

    stored: GroupMetadataValue | DurableConsumerGroup | DurableShareGroup | None
    offsets: dict[TopicPartition, CommittedOffset]
    open_transactions: dict[int, dict[TopicPartition, CommittedOffset]]


class GroupShard:
    """Owned by the context of its partition. `partition` is for log lines; `waiting`, `configs` and `topics` are shared by the
    shards of a coordinator."""

    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        waiting: WaitingBytes,
        configs: GroupConfigs | None = None,
        topics: GroupTopics | None = None,
    ) -> None:
        self.partition = partition
        self._configs = configs or GroupConfigs()
        self._topics = topics or GroupTopics()
        self._groups = Groups(waiting, settings.groups_max)
        # The groups that may have offsets in the open transaction of a producer.
        self._groups_by_producer: dict[int, set[str]] = {}
        self._is_loading = True
        self._outbox = Outbox()
        self._rebalance = Rebalance(settings, self._outbox)
        self._join = MemberJoin(settings, self._rebalance, waiting, self._outbox)
        self._sync = AssignmentSync(self._rebalance, waiting, self._outbox)
        self._leave = MemberLeave(self._rebalance, self._outbox)
        self._commits = OffsetCommits(settings, self._rebalance, self._topics, self._outbox)
        self._removal = GroupRemoval(settings, self._groups, self._outbox)
        conversion = Conversion(self._groups, self._rebalance, settings, self._configs, self._topics, self._outbox)
        self._appends = Appends(self._outbox)
        self._consumers = ConsumerOperations(
            self._groups, self._configs, self._topics, conversion, self._appends, self._outbox
        )
        self._shares = ShareOperations(self._groups, self._configs, self._topics, self._appends, self._outbox)
        self._settings = settings

    # --- membership ------------------------------------------------------------------------------------------------

    def join(self, join: Join, now_ms: int) -> list[Effect]:
        request = join.request
        if not self._join.session_timeout_is_valid(join):
            self._outbox.respond(join.waiter, join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
            return self._outbox.drain()
        group = self._groups.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            self._consumers.join_classic(group, join, self._join.join, now_ms)
        elif isinstance(group, ShareGroup):
            self._outbox.respond(join.waiter, join_error(UNKNOWN_MEMBER_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif group is None and request.member_id != UNKNOWN_MEMBER_ID:
            self._outbox.respond(join.waiter, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        elif group is None and self._groups.is_full:
            self._outbox.respond(join.waiter, join_error(request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED))
        else:
            self._join.join(group or self._groups.make_classic(request.group_id, now_ms), join, now_ms)
        return self._outbox.drain()

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> list[Effect]:
        match self._groups.find(request.group_id):
            case None | ShareGroup():
                self._outbox.respond(waiter, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            case ConsumerGroup() as group:
                self._consumers.sync_classic(group, request, waiter, now_ms)
            case classic:
                self._sync.sync(classic, request, waiter, now_ms)
        return self._outbox.drain()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        group = self._groups.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            error = self._consumers.heartbeat_classic(group, request, now_ms)
        else:
            error = self._leave.heartbeat(_classic(group), request, now_ms)
        return error, self._outbox.drain()

    def leave(
        self, group_id: str, leaving: list[MemberIdentity], now_ms: int
    ) -> tuple[LeaveGroupResponse, list[Effect]]:
        group = self._groups.find(group_id)
        if isinstance(group, ConsumerGroup):
            response = self._consumers.leave_classic(group, leaving, now_ms)
        else:
            response = self._leave.leave(_classic(group), leaving, now_ms)
        return response, self._outbox.drain()

    def consumer_heartbeat(self, beat: ConsumerHeartbeat, now_ms: int) -> list[Effect]:
        """A heartbeat of the new protocol, which also joins and leaves."""
        self._consumers.heartbeat(beat, now_ms)
        return self._outbox.drain()

    def share_heartbeat(self, beat: ShareHeartbeat, now_ms: int) -> list[Effect]:
        """A heartbeat of a member of a share group, which also joins and leaves."""
        self._shares.heartbeat(beat, now_ms)
        return self._outbox.drain()

    def on_share_states_initialized(self, outcome: InitializedShareStates, now_ms: int) -> list[Effect]:
        """The outcome of `InitializeShareStates`."""
        self._shares.states_initialized(outcome, now_ms)
        return self._outbox.drain()

    def plan_share_offsets(self, request: AlterShareGroupOffsetsRequest, waiter: Waiter, now_ms: int) -> list[Effect]:
        """The waiter gets `PlannedOffsets`, or a KafkaError as its response."""
        self._shares.plan_offsets(request, waiter, now_ms)
        return self._outbox.drain()

    def finish_share_offsets(self, outcome: InitializedShareStates, waiter: Waiter, now_ms: int) -> list[Effect]:
        """The share coordinator has answered what `plan_share_offsets` said. The waiter gets NONE or a KafkaError."""
        self._shares.finish_offsets(outcome, waiter, now_ms)
        return self._outbox.drain()

    def plan_share_deletion(
        self, group_id: str, topics: Sequence[str] | None, waiter: Waiter, now_ms: int
    ) -> list[Effect]:
        """Forget `topics`, or everything. The waiter gets `PlannedDeletion`, or a KafkaError as its response."""
        self._shares.plan_deletion(group_id, topics, waiter)
        return self._outbox.drain()

    def finish_share_deletion(
        self, group_id: str, asked: Collection[bytes], done: Collection[bytes], waiter: Waiter, now_ms: int
    ) -> list[Effect]:
        """The share coordinator has answered what `plan_share_deletion` said. The waiter gets NONE or a KafkaError."""
        self._shares.finish_deletion(group_id, asked, done, waiter)
        return self._outbox.drain()

    def initialized_share_partitions(self, group_id: str) -> TopicPartitions:
        """The partitions whose states the share coordinator keeps; none when there is no such share group."""
        group = self._groups.find(group_id)
        return group.partitions.initialized if isinstance(group, ShareGroup) else {}

    def is_share_group(self, group_id: str) -> bool:
        return isinstance(self._groups.find(group_id), ShareGroup)

    def on_target_computed(self, computed: ComputedTarget, now_ms: int) -> list[Effect]:
        """The outcome of `ComputeTarget`."""
        self._consumers.target_computed(computed, now_ms)
        self._shares.target_computed(computed, now_ms)
        return self._outbox.drain()

    def on_expressions_resolved(self, outcome: ResolvedExpressions, now_ms: int) -> list[Effect]:
        """The outcome of `ResolveExpressions`."""
        self._consumers.expressions_resolved(outcome, now_ms)
        return self._outbox.drain()

    def on_topics_changed(self, changes: TopicChanges, now_ms: int) -> list[Effect]:
        """Topics came, went or changed: groups that read them look again with their next heartbeat."""
        self._consumers.topics_changed(changes.names)
        self._shares.topics_changed(changes)
        return self._outbox.drain()

    # --- offsets ---------------------------------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, waiter: Waiter, now_ms: int, api_version: int = NEWEST_COMMIT
    ) -> list[Effect]:
        group = self._groups.find(request.group_id)
        if group is None and request.generation_id_or_member_epoch >= 0:
            # Its generation or epoch is of a group that was deleted or has expired.
            knows_epochs = api_version >= COMMIT_WITH_EPOCH_SINCE
            error = ErrorCode.GROUP_ID_NOT_FOUND if knows_epochs else ErrorCode.ILLEGAL_GENERATION
            self._outbox.respond(waiter, commit_response(request, error))
        elif group is None and self._groups.is_full:
            self._outbox.respond(waiter, commit_response(request, ErrorCode.GROUP_MAX_SIZE_REACHED))
        else:
            group = self._groups.known_or_classic(request.group_id, now_ms)
            self._commits.commit(group, request, api_version, waiter, now_ms)
        return self._outbox.drain()

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, producer: BatchProducer | None, waiter: Waiter, now_ms: int
    ) -> list[Effect]:
        """Without a `producer` the offsets are part of no transaction."""
        if request.group_id not in self._groups and self._groups.is_full:
            self._outbox.respond(waiter, transactional_commit_response(request, ErrorCode.GROUP_MAX_SIZE_REACHED))
            return self._outbox.drain()
        group = self._groups.known_or_classic(request.group_id, now_ms)
        self._commits.commit_in_transaction(group, request, producer, waiter, now_ms)
        return self._outbox.drain()

    def fetch_offsets(self, wanted: OffsetFetchRequestGroup, *, require_stable: bool) -> FetchedOffsets:
        return fetch_offsets(self._groups.find(wanted.group_id), wanted, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest, waiter: Waiter, now_ms: int) -> list[Effect]:
        self._removal.delete_offsets(self._groups.find(request.group_id), request, waiter, now_ms)
        return self._outbox.drain()

    # --- groups ----------------------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup:
        """A group of another kind is described as one that does not exist."""
        return described(group_id, self._groups.find(group_id))

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """`states` and `types` in lower case."""
        return [listed(group) for group in self._groups if is_listed(group, states, types)]

    def describe_consumer(self, group_id: str) -> ConsumerDescription:
        return self._consumers.describe(group_id)

    def describe_share(self, group_id: str) -> ShareDescription:
        return self._shares.describe(group_id)

    def delete_group(self, group_id: str, waiter: Waiter, now_ms: int) -> list[Effect]:
        self._removal.delete_group(self._groups.find(group_id), group_id, waiter, now_ms)
        return self._outbox.drain()

    def sessions_of(self, group_id: str) -> list[SessionTimer | ConsumerSessionTimer | ShareSessionTimer]:
        """The keys of the timers that remove the group's members."""
        match self._groups.find(group_id):
            case ClassicGroup() as classic:
                return [SessionTimer(group_id, member_id) for member_id in classic.members]
            case ConsumerGroup() as consumer:
                return [ConsumerSessionTimer(group_id, member_id) for member_id in consumer.subscriptions]
            case ShareGroup() as share:
                return [ShareSessionTimer(group_id, member_id) for member_id in share.subscriptions]
            case None:
                return []

    def group_ids(self) -> list[str]:
        return self._groups.ids()

    def stored_keys(self) -> list[str]:
        return self.group_ids()

    def expire(self, group_id: str, now_ms: int) -> list[Effect]:
        """Remove offsets of the group that outlived their retention, and the group when nothing remains."""
        group = self._groups.find(group_id)
        if group is not None:
            self._removal.expire(group, now_ms)
        return self._outbox.drain()

    def on_partitions_deleted(self, places: Iterable[TopicPartition], now_ms: int) -> list[Effect]:
        self._removal.topics_deleted(places, now_ms)
        return self._outbox.drain()

    def state_counts(self) -> Counter[GroupState]:
        """Of classic groups."""
        return Counter(group.state for group in self._groups if isinstance(group, ClassicGroup))

    def consumer_state_counts(self) -> Counter[ConsumerGroupState]:
        return Counter(group.state for group in self._groups if isinstance(group, ConsumerGroup))

    def share_group_ids(self) -> list[str]:
        return [group.group_id for group in self._groups if isinstance(group, ShareGroup)]

    def share_state_counts(self) -> Counter[ShareGroupState]:
        return Counter(group.state for group in self._groups if isinstance(group, ShareGroup))

    def offsets_count(self) -> int:
        return sum(len(group.offsets) for group in self._groups)

    # --- records ---------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, position: BatchPosition, now_ms: int) -> None:
        try:
            self._replay(record, position, now_ms)
        except DecodeError as error:
            # The shard's own records always decode; while loading, one bad record must not fail the whole partition.
            assert self._is_loading
            self._outbox.put(RecordSkipped(self.partition, position.base_offset, str(error)))

    def _replay(self, record: CoordinatorRecord, position: BatchPosition, now_ms: int) -> None:
        match read_key(record.key):
            case OffsetKey(group_id, topic_partition):
                offsets = self._groups.known_or_classic(group_id, now_ms).offsets
                transaction_of = position.producer_id if position.is_transactional else None
                if transaction_of is not None:
                    self._groups_by_producer.setdefault(transaction_of, set()).add(group_id)
                if record.value is None:
                    offsets.replay_removal(topic_partition, transaction_of)
                else:
                    commit = read_offset_value(record.value)
                    offsets.replay_commit(topic_partition, commit, position.base_offset, transaction_of)
            case GroupKey(group_id):
                self._replay_classic(group_id, None if record.value is None else read_group_value(record.value), now_ms)
            case EntryKey() as key:
                self._replay_entry(key, None if record.value is None else read_entry(key, record.value))
            case UnknownKey(version):
                self._outbox.put(RecordSkipped(self.partition, position.base_offset, f"key version {version}"))

    def _replay_entry(self, key: EntryKey, entry: Entry | None) -> None:
        """Loaded, or the tombstone of a group that is removed."""
        group = self._groups.find(key.group_id)
        if key.is_of_share_group:
            if not isinstance(group, ShareGroup):
                if entry is None:
                    return
                group = self._groups.make_share(key.group_id)
        elif not isinstance(group, ConsumerGroup):
            if entry is None:
                return
            group = self._groups.make_consumer(key.group_id)
        group.put(key, entry)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None, now_ms: int) -> None:
        known = self._groups.find(group_id)
        if isinstance(known, ConsumerGroup | ShareGroup):
            # The tombstone of the classic group before it; or what that one has still written, which is committed only now.
            if value is None or not self._is_loading:
                return
            known = self._groups.make_classic(group_id, now_ms)
        group = known or self._groups.make_classic(group_id, now_ms)
        group.stored = value
        if self._is_loading:
            group.clear(now_ms)
            if value is not None:
                group.restore(value, members_of(value))
        elif (
            value is not None
            and group.state is GroupState.COMPLETING_REBALANCE
            and group.generation_id == value.generation
        ):
            group.adopt_assignment(value, now_ms)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for group_id in self._groups_by_producer.pop(producer_id, ()):
            group = self._groups.find(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed=committed)

    def durable_state(self) -> dict[str, DurableGroup]:
        """The state that a replay of the log must yield again, for tests that compare coordinators."""
        return {
            group.group_id: DurableGroup(
                _stored(group), group.offsets.committed_offsets(), group.offsets.transactional_offsets()
            )
            for group in self._groups
            if _stored(group) is not None or len(group.offsets) or group.offsets.transactional_offsets()
        }

    def committed_offsets(self) -> Iterator[tuple[str, dict[TopicPartition, CommittedOffset]]]:
        """Yield the committed offsets of each group that has some. Groups may change between two steps."""
        for group in self._groups:
            if len(group.offsets):
                yield group.group_id, group.offsets.committed_offsets()

    # --- the context's events --------------------------------------------------------------------------------------

    def on_loaded(self, now_ms: int) -> list[Effect]:
        self._is_loading = False
        for group in self._groups:
            if group.is_forgettable:
                self._groups.remove(group.group_id)
                continue
            if isinstance(group, ConsumerGroup):
                self._consumers.loaded(group, now_ms)
                continue
            if isinstance(group, ShareGroup):
                self._shares.loaded(group, now_ms)
                continue
            if len(group.members) > self._settings.max_size:
                # The members may commit before the rebalance removes some of them.
                reason = RebalanceReason.OVER_CAPACITY
                self._rebalance.prepare(group, reason, tuple(group.members), "loaded", now_ms)
            for member in group.members.values():
                self._rebalance.extend_session(group, member, now_ms)
        return self._outbox.drain()

    def on_reelected(self, leader_epoch: int, now_ms: int) -> list[Effect]:
        """Nothing changes: groups have no epochs."""
        return []

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]:
        match key:
            case SessionTimer(group_id, member_id):
                self._with_group(group_id, lambda group: self._rebalance.on_session_timer(group, member_id, now_ms))
            case JoinTimer(group_id):
                self._with_group(group_id, lambda group: self._rebalance.on_join_timer(group, now_ms))
            case SyncTimer(group_id):
                self._with_group(group_id, lambda group: self._rebalance.on_sync_timer(group, now_ms))
            case ConsumerSessionTimer() | RevocationTimer() | RejoinTimer() | FetchAssignmentTimer():
                self._consumers.on_timer(key, now_ms)
            case ShareSessionTimer():
                self._shares.on_timer(key, now_ms)
            case _:
                raise AssertionError(f"not a timer of a group: {key}")
        return self._outbox.drain()

    def on_committed(self, result: Result, now_ms: int) -> list[Effect]:
        result.change.committed(now_ms)
        if result.waiter is not None:
            assert result.response is not None
            self._outbox.respond(result.waiter, result.response)
        return self._outbox.drain()

    def on_failed(self, result: Result, error: ErrorCode, now_ms: int) -> list[Effect]:
        if result.is_applied:
            self._appends.not_stored(result)
        self._outbox.fail(result, error, now_ms)
        return self._outbox.drain()

    def on_commit_timeout(self, result: Result, now_ms: int) -> list[Effect]:
        self._outbox.time_out(result, now_ms)
        return self._outbox.drain()

    def on_unloaded(self, in_flight: Sequence[Result], now_ms: int) -> list[Effect]:
        """Returns responses only: the leadership is over, and everything else is left to the next coordinator."""
        for group in self._groups:
            if isinstance(group, ClassicGroup):  # requests of the others wait for records only
                refuse_waiting(group, ErrorCode.NOT_COORDINATOR, self._outbox)
        effects = self._outbox.drain()
        for result in in_flight:
            effects += self.on_failed(result, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        return [effect for effect in effects if isinstance(effect, Respond)]

    # --- groups in memory ------------------------------------------------------------------------------------------

    def _with_group(self, group_id: str, operation: Callable[[ClassicGroup], None]) -> None:
        """Run `operation` unless the group was removed: its timer may fire after that."""
        group = self._groups.classic(group_id)
        if group is not None:
            operation(group)


def _classic(group: AnyGroup | None) -> ClassicGroup | None:
    return group if isinstance(group, ClassicGroup) else None


def _stored(group: AnyGroup) -> GroupMetadataValue | DurableConsumerGroup | DurableShareGroup | None:
    if isinstance(group, ClassicGroup):
        return group.stored
    return group.durable_state() if group.has_entries else None
