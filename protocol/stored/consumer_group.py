"""A consumer group (KIP-848) in __consumer_offsets: its epoch, its members, what each shall own and what each owns.

A key's version says which kind of record it is. A null value is a tombstone. Brokers of 3.9 skip these kinds with a warning.
"""

from __future__ import annotations

from protocol.schema import Message, array, bytes_, int8, int32, int64, string, struct, uuid
from protocol.stored.stored import Stored


class ConsumerGroupMetadataKey(Stored, versions="3"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Stored, versions="0", flexible="0+"):
    epoch:         int = int32()
    metadata_hash: int = int64(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Stored, versions="4"):
    group_id: str = string()


class PartitionMetadata(Message):
    partition: int       = int32()
    racks:     list[str] = array(string)


class TopicMetadata(Message):
    topic_id:           bytes                   = uuid()
    topic_name:         str                     = string()
    num_partitions:     int                     = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Stored, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Stored, versions="5"):
    group_id:  str = string()
    member_id: str = string()


class ClassicProtocol(Message):
    name:     str   = string()
    metadata: bytes = bytes_()


class ClassicMemberMetadata(Message):
    session_timeout_ms:  int                   = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Stored, versions="0", flexible="0+"):
    instance_id:             str | None                   = string(nullable="0+")
    rack_id:                 str | None                   = string(nullable="0+")
    client_id:               str                          = string()
    client_host:             str                          = string()
    subscribed_topic_names:  list[str]                    = array(string)
    subscribed_topic_regex:  str | None                   = string(nullable="0+")
    rebalance_timeout_ms:    int                          = int32(default=-1)
    server_assignor:         str | None                   = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0,
        default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[]),
    )


class ConsumerGroupTargetAssignmentMetadataKey(Stored, versions="6"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Stored, versions="0", flexible="0+"):
    assignment_epoch:     int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


class ConsumerGroupTargetAssignmentMemberKey(Stored, versions="7"):
    group_id:  str = string()
    member_id: str = string()


class TargetTopicPartitions(Message):
    topic_id:   bytes     = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Stored, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)


class ConsumerGroupCurrentMemberAssignmentKey(Stored, versions="8"):
    group_id:  str = string()
    member_id: str = string()


class CurrentTopicPartitions(Message):
    topic_id:          bytes            = uuid()
    partitions:        list[int]        = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, default=[])


class ConsumerGroupCurrentMemberAssignmentValue(Stored, versions="0", flexible="0+"):
    member_epoch:                  int                          = int32()
    previous_member_epoch:         int                          = int32()
    state:                         int                          = int8()
    assigned_partitions:           list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


class ConsumerGroupRegularExpressionKey(Stored, versions="16"):
    group_id:           str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Stored, versions="0", flexible="0+"):
    topics:    list[str] = array(string)
    version:   int       = int64()
    timestamp: int       = int64()
