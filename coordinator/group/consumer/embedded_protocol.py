"""What members of the classic protocol say about themselves inside JoinGroup, and what they get inside SyncGroup.

The coordinator of a consumer group does for them what the leader of a classic group does.

Rules: pure. Read are all versions that are known, newer ones as the newest known; an assignment has the version of the member's
subscription. Topics that do not exist are left out.
Source: Kafka ConsumerProtocol, Utils.toTopicPartitionMap and toConsumerProtocolAssignment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.assigned.topics import GroupTopics
from protocol.primitives import DecodeError
from protocol.stored.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from protocol.stored.stored import VERSION_BYTES, stored_version

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NEWEST: Final = 3


class CustomAssignorError(ValueError):
    """An assignment has data that only the assignor of its members understands."""


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises: DecodeError."""
    return ConsumerProtocolSubscription.decode(metadata, _version(metadata), VERSION_BYTES)


def read_assignment(assignment: bytes, topics: GroupTopics) -> TopicPartitions:
    """Raises: DecodeError; CustomAssignorError."""
    if not assignment:
        return {}
    found = ConsumerProtocolAssignment.decode(assignment, _version(assignment), VERSION_BYTES)
    if found.user_data:
        raise CustomAssignorError("userData from a custom assignor would be lost")
    return {
        topic_id: frozenset(partitions) for topic_id, partitions in by_id(found.assigned_partitions, topics).items()
    }


def by_id(
    rows: Iterable[AssignmentTopicPartition | SubscriptionTopicPartition], topics: GroupTopics
) -> dict[bytes, list[int]]:
    """The partitions by topic id."""
    found: dict[bytes, list[int]] = {}
    for row in rows:
        topic = topics.names().get(row.topic)
        if topic is not None and row.partitions:
            found.setdefault(topic.topic_id, []).extend(row.partitions)
    return found


def write_assignment(partitions: Mapping[bytes, Collection[int]], topics: GroupTopics, metadata: bytes) -> bytes:
    """The assignment of a member whose subscription is `metadata`; in the oldest form when that has no version that can be
    read: of several subscriptions, one for each assignor, only that of the first assignor has been read."""
    named = ((topics.name_of(topic_id), each) for topic_id, each in partitions.items())
    rows = [
        AssignmentTopicPartition(topic=name, partitions=sorted(each))
        for name, each in sorted((name, each) for name, each in named if name is not None)
    ]
    try:
        version = _version(metadata)
    except DecodeError:
        version = 0
    return ConsumerProtocolAssignment(assigned_partitions=rows).encode_stored(version)


def _version(data: bytes) -> int:
    """Raises: DecodeError."""
    version = stored_version(data)
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, NEWEST)
