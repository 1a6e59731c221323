"""A share group (KIP-932) in __consumer_offsets: its epoch, its members, what each has, and which share partitions it has.

A key's version says which kind of record it is. A null value is a tombstone. Brokers of 3.9 skip these kinds with a warning.
"""

from __future__ import annotations

from protocol.schema import Message, array, int8, int32, int64, string, uuid
from protocol.stored.stored import Stored


class ShareGroupMemberMetadataKey(Stored, versions="10"):
    group_id:  str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Stored, versions="0", flexible="0+"):
    rack_id:                str | None = string(nullable="0+")
    client_id:              str        = string()
    client_host:            str        = string()
    subscribed_topic_names: list[str]  = array(string)


class ShareGroupMetadataKey(Stored, versions="11"):
    group_id: str = string()


class ShareGroupMetadataValue(Stored, versions="0", flexible="0+"):
    epoch:         int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Stored, versions="12"):
    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Stored, versions="0", flexible="0+"):
    assignment_epoch:     int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


class ShareGroupTargetAssignmentMemberKey(Stored, versions="13"):
    group_id:  str = string()
    member_id: str = string()


class TopicPartitions(Message):
    topic_id:   bytes     = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberValue(Stored, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupCurrentMemberAssignmentKey(Stored, versions="14"):
    group_id:  str = string()
    member_id: str = string()


class ShareGroupCurrentMemberAssignmentValue(Stored, versions="0", flexible="0+"):
    member_epoch:          int                   = int32()
    previous_member_epoch: int                   = int32()
    state:                 int                   = int8()
    assigned_partitions:   list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Stored, versions="15"):
    group_id: str = string()


class NamedTopicPartitions(Message):
    topic_id:   bytes     = uuid()
    topic_name: str       = string()
    partitions: list[int] = array(int32)


class NamedTopic(Message):
    topic_id:   bytes = uuid()
    topic_name: str   = string()


class ShareGroupStatePartitionMetadataValue(Stored, versions="0", flexible="0+"):
    initializing_topics: list[NamedTopicPartitions] = array(NamedTopicPartitions)
    initialized_topics:  list[NamedTopicPartitions] = array(NamedTopicPartitions)
    deleting_topics:     list[NamedTopic]           = array(NamedTopic)
