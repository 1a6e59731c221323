"""The removal of offsets and groups: DeleteGroups, OffsetDelete, expiry, and the deletion of their topics.

All four write tombstones. When nothing of an empty group would remain, the group is removed with its last offset: it is DEAD
from the append on, refuses every request, and is removed from memory when the tombstones are committed (or EMPTY again when
they fail).

A share group has no offsets here: it is removed by DeleteGroups alone, when the share coordinator has forgotten its states.

Rules: no IO. Tombstones of one removal are appended in batches of bounded size, in order; its response waits for the last.
Invariant: expiry never removes an offset of an open transaction, nor its group. DeleteGroups, OffsetDelete and the deletion of
a topic remove it, with a tombstone like any other.
Source: Kafka GroupMetadataManager.cleanupGroupMetadata, GroupMetadata.removeExpiredOffsets; KIP-211, KIP-229, KIP-496.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.group.append_errors import offset_append_error
from coordinator.group.assigned.entry_records import record_of
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.rebalance import SessionTimer
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.events import GroupRemoved, OffsetsRemoved
from coordinator.group.groups import AnyGroup, Groups
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import group_tombstone, offset_tombstone
from coordinator.group.settings import GroupSettings
from coordinator.group.share.group import ShareGroup
from coordinator.runtime.contract import AppendRecords, CancelTimer, CoordinatorRecord, Outbox, Result, Waiter
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.schema import Message
from protocol.topic_partition import TopicPartition

# Well under the topic's max.message.bytes (1 MiB), record headers included.
TOMBSTONE_BATCH_BYTES = 256 * 1024


class GroupRemoval:
    """Removes offsets and groups of a shard, of all kinds. `groups` are the shard's own, of which a removed one is deleted."""

    def __init__(self, settings: GroupSettings, groups: Groups, outbox: Outbox) -> None:
        self._settings = settings
        self._groups = groups
        self._outbox = outbox

    def delete_group(self, group: AnyGroup | None, group_id: str, waiter: Waiter, now_ms: int) -> None:
        if group is None or group.is_dead:
            self._outbox.respond(waiter, _deletable(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
        elif not group.is_empty:
            self._outbox.respond(waiter, _deletable(group_id, ErrorCode.NON_EMPTY_GROUP))
        else:
            removal = _Removal(self, group, _DeleteGroup(group_id), is_deletion=True)
            self._remove(removal, group.offsets.topic_partitions(), waiter, now_ms)

    def delete_offsets(self, group: AnyGroup | None, request: OffsetDeleteRequest, waiter: Waiter, now_ms: int) -> None:
        if group is None or group.is_dead or isinstance(group, ShareGroup):
            self._outbox.respond(waiter, offset_delete_error(ErrorCode.GROUP_ID_NOT_FOUND))
            return
        if isinstance(group, ClassicGroup) and not group.is_empty and not group.is_consumer_group:
            self._outbox.respond(waiter, offset_delete_error(ErrorCode.NON_EMPTY_GROUP))
            return
        in_use = set()
        if not group.is_empty:
            in_use = {topic.name for topic in request.topics if group.is_subscribed_to(topic.name)}
        topic_partitions = {
            (topic.name, partition.partition_index): None
            for topic in request.topics
            if topic.name not in in_use
            for partition in topic.partitions
        }
        removal = _Removal(self, group, _DeleteOffsets(request, in_use))
        if topic_partitions:
            self._remove(removal, group.offsets.of_partitions(topic_partitions), waiter, now_ms)
        else:
            self._outbox.respond(waiter, removal.response(ErrorCode.NONE))

    def topics_deleted(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """The partitions were deleted: remove all offsets of them."""
        deleted = list(topic_partitions)
        for group in self._groups:
            if not group.is_dead:
                of_group = group.offsets.of_partitions(deleted)
                if of_group:
                    self._remove(_Removal(self, group), of_group, None, now_ms)

    def expire(self, group: AnyGroup, now_ms: int) -> None:
        """Remove offsets that have outlived their retention, and an empty group without any."""
        if group.is_dead:
            return
        expired = self._expired(group, now_ms)
        if expired or group.is_idle:
            self._remove(_Removal(self, group, is_expiry=True), expired, None, now_ms)

    def _expired(self, group: AnyGroup, now_ms: int) -> list[TopicPartition]:
        """Retention starts when the group became empty; for topics that a group does not consume, and for groups that only
        store offsets here, it starts with the commit, and so it does in consumer groups."""
        retention_ms = self._settings.offsets_retention_ms
        if isinstance(group, ShareGroup):
            return []
        if isinstance(group, ConsumerGroup):
            return group.offsets.expired(now_ms, retention_ms, _committed_at, group.subscribed_topics())
        if group.protocol_type is None:
            return group.offsets.expired(now_ms, retention_ms, _committed_at)
        if group.state is GroupState.EMPTY:
            emptied_ms = group.state_timestamp_ms
            since = _committed_at if emptied_ms is None else lambda _commit: emptied_ms
            return group.offsets.expired(now_ms, retention_ms, since)
        if group.state is GroupState.STABLE and group.subscribed is not None:
            return group.offsets.expired(now_ms, retention_ms, _committed_at, group.subscribed)
        return []

    # --- tombstones ------------------------------------------------------------------------------------------------

    def _remove(
        self, removal: _Removal, topic_partitions: list[TopicPartition], waiter: Waiter | None, now_ms: int
    ) -> None:
        group = removal.group
        records = [offset_tombstone(group.group_id, topic_partition) for topic_partition in topic_partitions]
        may_expire = group.is_empty and not isinstance(group, ShareGroup)
        is_last = may_expire and not group.offsets.would_be_used_without(set(topic_partitions))
        if removal.is_deletion or is_last:
            removal.removes_group = True
            records += self._bury(removal, now_ms)
        if not records:
            removal.end(now_ms)
            if waiter is not None:
                self._outbox.respond(waiter, removal.response(ErrorCode.NONE))
            return
        group.offsets.add_pending_removal(topic_partitions)
        removal.topic_partitions = topic_partitions
        batches = list(_batches(records))
        removal.pending_batches = len(batches)
        for batch in batches:
            is_final = batch is batches[-1]
            result = Result(batch, removal, waiter=waiter if is_final else None)
            if is_final and waiter is not None:
                result.response = removal.response(ErrorCode.NONE)
            self._outbox.put(AppendRecords(result))

    def _bury(self, removal: _Removal, now_ms: int) -> list[CoordinatorRecord]:
        """The group refuses every request from now on. Returns its tombstones."""
        group = removal.group
        if not isinstance(group, ClassicGroup):
            removal.epoch = group.epoch
            group.die()
            return [record_of(key, None) for key in group.stored_keys()]
        removal.emptied_ms = group.state_timestamp_ms
        group.transition(GroupState.DEAD, now_ms)
        for member_id in group.pending_members:  # their next JoinGroup gets UNKNOWN_MEMBER_ID
            self._outbox.put(CancelTimer(SessionTimer(group.group_id, member_id)))
        group.pending_members.clear()
        # A group that never had a generation has no record.
        return [group_tombstone(group.group_id)] if group.generation_id > 0 else []

    def ended(self, removal: _Removal, now_ms: int) -> None:
        """Complete `removal`: the outcome of every batch is known."""
        group = removal.group
        group.offsets.remove_pending_removal(removal.topic_partitions)
        if removal.error is ErrorCode.NONE and removal.topic_partitions:
            self._outbox.put(OffsetsRemoved(group.group_id, len(removal.topic_partitions), removal.is_expiry))
        if not removal.removes_group:
            return
        if removal.error is not ErrorCode.NONE:
            if isinstance(group, ClassicGroup):
                group.revive(removal.emptied_ms)
            else:
                group.revive()
            return
        if not isinstance(group, ClassicGroup):
            self._outbox.put(GroupRemoved(group.group_id, removal.epoch))
            if group.offsets.is_in_use:
                self._groups.make_classic(group.group_id, now_ms)
            else:
                self._groups.remove(group.group_id)
            return
        self._outbox.put(GroupRemoved(group.group_id, group.generation_id))
        if group.offsets.is_in_use:
            group.clear(now_ms)
        else:
            self._groups.remove(group.group_id)


@dataclass(frozen=True, slots=True)
class _DeleteGroup:
    group_id: str

    def response(self, error: ErrorCode) -> Message:
        return _deletable(self.group_id, error)


@dataclass(frozen=True, slots=True)
class _DeleteOffsets:
    request: OffsetDeleteRequest
    in_use: set[str]

    def response(self, error: ErrorCode) -> Message:
        return offset_delete_error(error) if error is not ErrorCode.NONE else _deleted(self.request, self.in_use)


@dataclass(slots=True, eq=False)
class _Removal:
    """Tombstones of one group while they are appended, in one batch or several."""

    removal: GroupRemoval
    group: AnyGroup
    request: _DeleteGroup | _DeleteOffsets | None = None
    is_deletion: bool = False
    is_expiry: bool = False
    removes_group: bool = False
    emptied_ms: int | None = None
    epoch: int = 0
    topic_partitions: list[TopicPartition] = field(default_factory=list)
    pending_batches: int = 0
    error: ErrorCode = ErrorCode.NONE

    def response(self, error: ErrorCode) -> Message:
        assert self.request is not None
        return self.request.response(error)

    def committed(self, now_ms: int) -> None:
        self._count_down(now_ms)

    def failed(self, error: ErrorCode, now_ms: int) -> Message | None:
        self.error = error
        self._count_down(now_ms)
        return self.response(offset_append_error(error)) if self.request is not None else None

    def timed_out(self, now_ms: int) -> Message | None:
        return self.response(ErrorCode.REQUEST_TIMED_OUT) if self.request is not None else None

    def end(self, now_ms: int) -> None:
        self.removal.ended(self, now_ms)

    def _count_down(self, now_ms: int) -> None:
        self.pending_batches -= 1
        if self.pending_batches == 0:
            self.end(now_ms)


def offset_delete_error(error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=[])


def _deleted(request: OffsetDeleteRequest, in_use: set[str]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in in_use else ErrorCode.NONE,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _deletable(group_id: str, error: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error)


def _committed_at(commit: CommittedOffset) -> int:
    return commit.commit_timestamp_ms


def _batches(records: list[CoordinatorRecord]) -> Iterator[tuple[CoordinatorRecord, ...]]:
    batch: list[CoordinatorRecord] = []
    size_bytes = 0
    for record in records:
        if batch and size_bytes + len(record.key) > TOMBSTONE_BATCH_BYTES:
            yield tuple(batch)
            batch, size_bytes = [], 0
        batch.append(record)
        size_bytes += len(record.key)
    if batch:
        yield tuple(batch)
