"""The entries of a consumer group: each is what one record of `__consumer_offsets` stores.

    3   GROUP_EPOCH          the group -> its epoch, and a hash of the metadata of its topics
    4   PARTITION_METADATA   the group -> its topics; written by older brokers only, and removed
    5   SUBSCRIPTION         a member -> what it asked for
    6   TARGET_EPOCH         the group -> the epoch that the target assignment is for, and when it was computed
    7   TARGET               a member -> what it shall own
    8   CURRENT              a member -> what it owns
    16  EXPRESSION           a regular expression -> the topics that it matched

Rules: immutable values; no IO. The number of a kind is the version of the record's key.
Source: Kafka CoordinatorRecordType, TargetAssignmentMetadata, Assignment, ResolvedRegularExpression.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from coordinator.group.consumer.assignors.contract import TopicPartitions
from coordinator.group.consumer.member import CurrentAssignment, Subscription


class EntryKind(IntEnum):
    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    SUBSCRIPTION = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    EXPRESSION = 16


@dataclass(frozen=True, slots=True)
class EntryKey:
    """`name`: the member's id or the expression; empty for an entry of the group."""

    kind: EntryKind
    group_id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """`timestamp_ms` 0: not known, stored by an older broker."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Target:
    partitions: TopicPartitions


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """`version` grows with the topics of the cluster: an expression of an older version may match more topics by now."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StoredTopics:
    """That the record is there: nothing of it is used."""


Entry: TypeAlias = (
    GroupEpoch | TargetEpoch | Target | ResolvedExpression | StoredTopics | Subscription | CurrentAssignment
)

NO_TARGET_EPOCH = TargetEpoch(1, 0)
NO_GROUP_EPOCH = GroupEpoch(1, 0)
"""That of a new group: its members have an epoch above 0 also when nothing has called for a new one."""
