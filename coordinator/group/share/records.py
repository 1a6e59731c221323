"""The records of share groups in `__consumer_offsets`, as Apache Kafka 4.3 writes and reads them.

Rules: no IO. Names, topics and partitions are written in ascending order, so that one entry has one form.
Source: Kafka GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde, and the replay methods of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.assigned.entries import EntryKey, EntryKind, GroupEpoch, Target, TargetEpoch
from coordinator.group.share.entries import ShareEntry, SharePartitions
from coordinator.group.share.member import ShareAssignment, ShareSubscription
from protocol.stored.share_group import (
    NamedTopic,
    NamedTopicPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from protocol.stored.share_group import TopicPartitions as StoredTopicPartitions

VALUE_VERSION = 0
STABLE = 0
"""The state of every member: it has nothing to give up or to wait for."""


def read_entry_key(key: bytes, version: int) -> EntryKey | None:
    """Decode the key of a record; None when `version` is no kind of entry of share groups. Raises: DecodeError."""
    match version:
        case EntryKind.SHARE_GROUP_EPOCH:
            return EntryKey(EntryKind.SHARE_GROUP_EPOCH, ShareGroupMetadataKey.decode_stored(key).group_id)
        case EntryKind.SHARE_TARGET_EPOCH:
            target_key = ShareGroupTargetAssignmentMetadataKey.decode_stored(key)
            return EntryKey(EntryKind.SHARE_TARGET_EPOCH, target_key.group_id)
        case EntryKind.SHARE_SUBSCRIPTION:
            member = ShareGroupMemberMetadataKey.decode_stored(key)
            return EntryKey(EntryKind.SHARE_SUBSCRIPTION, member.group_id, member.member_id)
        case EntryKind.SHARE_TARGET:
            target = ShareGroupTargetAssignmentMemberKey.decode_stored(key)
            return EntryKey(EntryKind.SHARE_TARGET, target.group_id, target.member_id)
        case EntryKind.SHARE_CURRENT:
            current = ShareGroupCurrentMemberAssignmentKey.decode_stored(key)
            return EntryKey(EntryKind.SHARE_CURRENT, current.group_id, current.member_id)
        case EntryKind.SHARE_PARTITIONS:
            partitions = ShareGroupStatePartitionMetadataKey.decode_stored(key)
            return EntryKey(EntryKind.SHARE_PARTITIONS, partitions.group_id)
    return None


def read_entry(kind: EntryKind, value: bytes) -> ShareEntry:
    """Decode the value of a record. Raises: DecodeError."""
    match kind:
        case EntryKind.SHARE_GROUP_EPOCH:
            group = ShareGroupMetadataValue.decode_stored(value)
            return GroupEpoch(group.epoch, group.metadata_hash)
        case EntryKind.SHARE_TARGET_EPOCH:
            target_epoch = ShareGroupTargetAssignmentMetadataValue.decode_stored(value)
            return TargetEpoch(target_epoch.assignment_epoch, target_epoch.assignment_timestamp)
        case EntryKind.SHARE_SUBSCRIPTION:
            member = ShareGroupMemberMetadataValue.decode_stored(value)
            names = frozenset(member.subscribed_topic_names)
            return ShareSubscription(names, member.rack_id, member.client_id, member.client_host)
        case EntryKind.SHARE_TARGET:
            return Target(_read_rows(ShareGroupTargetAssignmentMemberValue.decode_stored(value).topic_partitions))
        case EntryKind.SHARE_CURRENT:
            current = ShareGroupCurrentMemberAssignmentValue.decode_stored(value)
            assigned = _read_rows(current.assigned_partitions)
            return ShareAssignment(current.member_epoch, current.previous_member_epoch, assigned)
        case EntryKind.SHARE_PARTITIONS:
            return _read_partitions(ShareGroupStatePartitionMetadataValue.decode_stored(value))
        case _:
            raise AssertionError(f"no entry of a share group: {kind}")


def encode_key(key: EntryKey) -> bytes:
    group_id, name = key.group_id, key.name
    match key.kind:
        case EntryKind.SHARE_GROUP_EPOCH:
            return ShareGroupMetadataKey(group_id=group_id).encode_stored(key.kind)
        case EntryKind.SHARE_TARGET_EPOCH:
            return ShareGroupTargetAssignmentMetadataKey(group_id=group_id).encode_stored(key.kind)
        case EntryKind.SHARE_SUBSCRIPTION:
            return ShareGroupMemberMetadataKey(group_id=group_id, member_id=name).encode_stored(key.kind)
        case EntryKind.SHARE_TARGET:
            return ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name).encode_stored(key.kind)
        case EntryKind.SHARE_CURRENT:
            return ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name).encode_stored(key.kind)
        case EntryKind.SHARE_PARTITIONS:
            return ShareGroupStatePartitionMetadataKey(group_id=group_id).encode_stored(key.kind)
        case _:
            raise AssertionError(f"no entry of a share group: {key.kind}")


def encode_value(entry: ShareEntry) -> bytes:
    match entry:
        case ShareAssignment(member_epoch, previous_epoch, assigned):
            return ShareGroupCurrentMemberAssignmentValue(
                member_epoch=member_epoch,
                previous_member_epoch=previous_epoch,
                state=STABLE,
                assigned_partitions=_rows(assigned),
            ).encode_stored(VALUE_VERSION)
        case Target(partitions):
            value = ShareGroupTargetAssignmentMemberValue(topic_partitions=_rows(partitions))
            return value.encode_stored(VALUE_VERSION)
        case ShareSubscription(names, rack_id, client_id, client_host):
            return ShareGroupMemberMetadataValue(
                rack_id=rack_id, client_id=client_id, client_host=client_host, subscribed_topic_names=sorted(names)
            ).encode_stored(VALUE_VERSION)
        case GroupEpoch(epoch, metadata_hash):
            return ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash).encode_stored(VALUE_VERSION)
        case TargetEpoch(epoch, timestamp_ms):
            return ShareGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            ).encode_stored(VALUE_VERSION)
        case SharePartitions():
            return ShareGroupStatePartitionMetadataValue(
                initializing_topics=_named_rows(entry.initializing, entry),
                initialized_topics=_named_rows(entry.initialized, entry),
                deleting_topics=[
                    NamedTopic(topic_id=each, topic_name=entry.names[each]) for each in sorted(entry.deleting)
                ],
            ).encode_stored(VALUE_VERSION)


def _rows(partitions: TopicPartitions) -> list[StoredTopicPartitions]:
    return [
        StoredTopicPartitions(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
        for topic_id in sorted(partitions)
    ]


def _read_rows(rows: Iterable[StoredTopicPartitions | NamedTopicPartitions]) -> TopicPartitions:
    return {row.topic_id: frozenset(row.partitions) for row in rows if row.partitions}


def _named_rows(partitions: TopicPartitions, entry: SharePartitions) -> list[NamedTopicPartitions]:
    return [
        NamedTopicPartitions(
            topic_id=topic_id, topic_name=entry.names[topic_id], partitions=sorted(partitions[topic_id])
        )
        for topic_id in sorted(partitions)
    ]


def _read_partitions(value: ShareGroupStatePartitionMetadataValue) -> SharePartitions:
    names = {row.topic_id: row.topic_name for row in (*value.initializing_topics, *value.initialized_topics)}
    names.update((row.topic_id, row.topic_name) for row in value.deleting_topics)
    return SharePartitions(
        _read_rows(value.initializing_topics),
        _read_rows(value.initialized_topics),
        frozenset(row.topic_id for row in value.deleting_topics),
        names,
    )
