"""The records of consumer groups in `__consumer_offsets`, as Apache Kafka 4.3 writes and reads them.

Rules: no IO. Names, topics and partitions are written in ascending order, so that one entry has one form. Topics that a record
names by id stay in it when the topic is gone.
Source: Kafka GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde, and the replay methods of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.group.assigned.entries import EntryKey, EntryKind, GroupEpoch, Target, TargetEpoch
from coordinator.group.consumer.entries import ConsumerEntry, ResolvedExpression, StoredTopics
from coordinator.group.consumer.member import (
    ClassicPart,
    CurrentAssignment,
    MemberState,
    PartitionEpochs,
    Subscription,
)
from protocol.stored.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)

VALUE_VERSION = 0


def read_entry_key(key: bytes, version: int) -> EntryKey | None:
    """Decode the key of a record; None when `version` is no kind of entry. Raises: DecodeError."""
    match version:
        case EntryKind.GROUP_EPOCH:
            return EntryKey(EntryKind.GROUP_EPOCH, ConsumerGroupMetadataKey.decode_stored(key).group_id)
        case EntryKind.PARTITION_METADATA:
            return EntryKey(EntryKind.PARTITION_METADATA, ConsumerGroupPartitionMetadataKey.decode_stored(key).group_id)
        case EntryKind.TARGET_EPOCH:
            target_key = ConsumerGroupTargetAssignmentMetadataKey.decode_stored(key)
            return EntryKey(EntryKind.TARGET_EPOCH, target_key.group_id)
        case EntryKind.SUBSCRIPTION:
            member = ConsumerGroupMemberMetadataKey.decode_stored(key)
            return EntryKey(EntryKind.SUBSCRIPTION, member.group_id, member.member_id)
        case EntryKind.TARGET:
            target = ConsumerGroupTargetAssignmentMemberKey.decode_stored(key)
            return EntryKey(EntryKind.TARGET, target.group_id, target.member_id)
        case EntryKind.CURRENT:
            current = ConsumerGroupCurrentMemberAssignmentKey.decode_stored(key)
            return EntryKey(EntryKind.CURRENT, current.group_id, current.member_id)
        case EntryKind.EXPRESSION:
            expression = ConsumerGroupRegularExpressionKey.decode_stored(key)
            return EntryKey(EntryKind.EXPRESSION, expression.group_id, expression.regular_expression)
    return None


def read_entry(kind: EntryKind, value: bytes) -> ConsumerEntry:
    """Decode the value of a record. Raises: DecodeError."""
    match kind:
        case EntryKind.GROUP_EPOCH:
            group = ConsumerGroupMetadataValue.decode_stored(value)
            return GroupEpoch(group.epoch, group.metadata_hash)
        case EntryKind.PARTITION_METADATA:
            return StoredTopics()
        case EntryKind.TARGET_EPOCH:
            target_epoch = ConsumerGroupTargetAssignmentMetadataValue.decode_stored(value)
            return TargetEpoch(target_epoch.assignment_epoch, target_epoch.assignment_timestamp)
        case EntryKind.SUBSCRIPTION:
            return _read_subscription(ConsumerGroupMemberMetadataValue.decode_stored(value))
        case EntryKind.TARGET:
            target = ConsumerGroupTargetAssignmentMemberValue.decode_stored(value)
            return Target({each.topic_id: frozenset(each.partitions) for each in target.topic_partitions})
        case EntryKind.CURRENT:
            return _read_current(ConsumerGroupCurrentMemberAssignmentValue.decode_stored(value))
        case EntryKind.EXPRESSION:
            expression = ConsumerGroupRegularExpressionValue.decode_stored(value)
            return ResolvedExpression(frozenset(expression.topics), expression.version, expression.timestamp)
        case _:
            raise AssertionError(f"no entry of a consumer group: {kind}")


def encode_key(key: EntryKey) -> bytes:
    group_id, name = key.group_id, key.name
    match key.kind:
        case EntryKind.GROUP_EPOCH:
            return ConsumerGroupMetadataKey(group_id=group_id).encode_stored(key.kind)
        case EntryKind.PARTITION_METADATA:
            return ConsumerGroupPartitionMetadataKey(group_id=group_id).encode_stored(key.kind)
        case EntryKind.TARGET_EPOCH:
            return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id).encode_stored(key.kind)
        case EntryKind.SUBSCRIPTION:
            return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name).encode_stored(key.kind)
        case EntryKind.TARGET:
            return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name).encode_stored(key.kind)
        case EntryKind.CURRENT:
            return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name).encode_stored(key.kind)
        case EntryKind.EXPRESSION:
            return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=name).encode_stored(key.kind)
        case _:
            raise AssertionError(f"no entry of a consumer group: {key.kind}")


def encode_value(entry: ConsumerEntry) -> bytes:
    match entry:
        case CurrentAssignment():
            return _current_value(entry).encode_stored(VALUE_VERSION)
        case Target(partitions):
            return ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TargetTopicPartitions(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
                    for topic_id in sorted(partitions)
                ]
            ).encode_stored(VALUE_VERSION)
        case Subscription():
            return _subscription_value(entry).encode_stored(VALUE_VERSION)
        case GroupEpoch(epoch, metadata_hash):
            return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash).encode_stored(VALUE_VERSION)
        case TargetEpoch(epoch, timestamp_ms):
            return ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            ).encode_stored(VALUE_VERSION)
        case ResolvedExpression(topics, version, timestamp_ms):
            return ConsumerGroupRegularExpressionValue(
                topics=sorted(topics), version=version, timestamp=timestamp_ms
            ).encode_stored(VALUE_VERSION)
        case StoredTopics():
            raise AssertionError("the topics of a group are not written, only removed")


def _subscription_value(subscription: Subscription) -> ConsumerGroupMemberMetadataValue:
    classic = subscription.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )


def _read_subscription(value: ConsumerGroupMemberMetadataValue) -> Subscription:
    classic = value.classic_member_metadata
    return Subscription(
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicPart(
            classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
        ),
    )


def _current_value(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_with_epochs(current.assigned),
        partitions_pending_revocation=_with_epochs(current.pending_revocation),
    )


def _with_epochs(partitions: PartitionEpochs) -> list[CurrentTopicPartitions]:
    rows = []
    for topic_id in sorted(partitions):
        of_topic = sorted(partitions[topic_id].items())
        rows.append(
            CurrentTopicPartitions(
                topic_id=topic_id,
                partitions=[partition for partition, _ in of_topic],
                assignment_epochs=[epoch for _, epoch in of_topic],
            )
        )
    return rows


def _read_current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    known = value.state in set(MemberState)
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if known else MemberState.UNKNOWN,
        _read_epochs(value.assigned_partitions, value.member_epoch),
        _read_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_epochs(rows: Iterable[CurrentTopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Older brokers stored no epochs of partitions: that of the member stands for them."""
    partitions: dict[bytes, Mapping[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs or []
        if len(epochs) != len(row.partitions):
            epochs = [member_epoch] * len(row.partitions)
        partitions[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
    return partitions
