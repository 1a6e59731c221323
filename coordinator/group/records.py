"""The records of `__consumer_offsets`, as Apache Kafka 3.9 writes and reads them.

    key version 1 (read also: 0)   group, topic, partition -> committed offset (value v3, 2 or 1; v1 with an expiry of its own)
    key version 2                  group -> group metadata (value v3, 2, 1 or 0)
    key versions 3 to 8, 16        the entries of a consumer group
    key versions 10 to 15          the entries of a share group

Every key and value starts with its version as an int16. A null value is a tombstone.

Rules: no IO. Written are the versions that every broker of the cluster reads, by its inter.broker.protocol.version: any of them
may lead the partition next, and one that does not know a value's version fails to load it. Read are all that 3.9 reads, and
those of consumer and share groups (`assigned/entry_records.py`), which 3.9 skips with a warning; other keys are unknown.
Source: Kafka GroupMetadataManager.offsetCommitKey/Value, groupMetadataKey/Value, readMessageKey.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from config.inter_broker_version import LATEST
from coordinator.group.assigned.entries import EntryKey
from coordinator.group.assigned.entry_records import read_entry_key
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.offsets import CommittedOffset
from coordinator.runtime.contract import CoordinatorRecord
from protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.stored.stored import stored_version
from protocol.topic_partition import TopicPartition

OFFSET_KEY_VERSIONS = (0, 1)
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class UnknownKey:
    version: int


RecordKey: TypeAlias = OffsetKey | GroupKey | EntryKey | UnknownKey


def offset_record(
    group_id: str, topic_partition: TopicPartition, commit: CommittedOffset, version: int = LATEST.offset_commit_value
) -> CoordinatorRecord:
    """The record of a commit. `version` is that of the value, unless the commit has an expiry of its own."""
    if commit.expire_timestamp_ms != -1:
        version = OFFSET_VALUE_VERSION_WITH_EXPIRY
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,  # v1 and v2 have no field for it, as in Kafka
        metadata=commit.metadata,
        commit_timestamp=commit.commit_timestamp_ms,
        expire_timestamp=commit.expire_timestamp_ms,
    )
    return CoordinatorRecord(_offset_key(group_id, topic_partition), value.encode_stored(version))


def offset_tombstone(group_id: str, topic_partition: TopicPartition) -> CoordinatorRecord:
    return CoordinatorRecord(_offset_key(group_id, topic_partition), None)


def group_record(
    group: ClassicGroup, assignments: dict[str, bytes], version: int = LATEST.group_metadata_value
) -> CoordinatorRecord:
    """The record of `group` in its present state, with `assignments` by member id for all of its members."""
    protocol_name = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=[_stored_member(member, protocol_name, assignments) for member in group.members.values()],
    )
    return CoordinatorRecord(_group_key(group.group_id), value.encode_stored(version))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(_group_key(group_id), None)


def read_key(key: bytes) -> RecordKey:
    """Decode the key of a record. Raises: DecodeError when it is not a key of this topic."""
    version = stored_version(key)
    if version in OFFSET_KEY_VERSIONS:
        offset_key = OffsetCommitKey.decode_stored(key)
        return OffsetKey(offset_key.group, (offset_key.topic, offset_key.partition))
    if version == GROUP_KEY_VERSION:
        return GroupKey(GroupMetadataKey.decode_stored(key).group)
    return read_entry_key(key, version) or UnknownKey(version)


def read_offset_value(value: bytes) -> CommittedOffset:
    """Decode the value of an offset record. Raises: DecodeError."""
    stored = OffsetCommitValue.decode_stored(value)
    return CommittedOffset(
        stored.offset, stored.leader_epoch, stored.metadata, stored.commit_timestamp, stored.expire_timestamp
    )


def read_group_value(value: bytes) -> GroupMetadataValue:
    """Decode the value of a group record. Raises: DecodeError."""
    stored = GroupMetadataValue.decode_stored(value)
    if stored_version(value) == 0:  # before rebalance timeouts there was one timeout for both
        for member in stored.members:
            member.rebalance_timeout = member.session_timeout
    return stored


def members_of(stored: GroupMetadataValue) -> list[Member]:
    """The members of a stored generation, with the chosen protocol alone: others are not stored."""
    return [
        Member(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            protocol_type=stored.protocol_type,
            protocols=((stored.protocol or "", member.subscription),),
            assignment=member.assignment,
        )
        for member in stored.members
    ]


def _stored_member(member: Member, protocol_name: str | None, assignments: dict[str, bytes]) -> MemberMetadata:
    assert protocol_name is not None, "a group with members has a protocol"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignments[member.member_id],
    )


def _offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    topic, partition = topic_partition
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return key.encode_stored(OFFSET_KEY_VERSION)


def _group_key(group_id: str) -> bytes:
    return GroupMetadataKey(group=group_id).encode_stored(GROUP_KEY_VERSION)
