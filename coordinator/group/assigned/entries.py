"""The entries of groups with broker-side assignment: each is what one record of `__consumer_offsets` stores.

    consumer  share
    3         11     GROUP_EPOCH          the group -> its epoch, and a hash of the metadata of its topics
    5         10     SUBSCRIPTION         a member -> what it asked for
    6         12     TARGET_EPOCH         the group -> the epoch that the target assignment is for, and when it was computed
    7         13     TARGET               a member -> what it shall own
    8         14     CURRENT              a member -> what it owns
    4                PARTITION_METADATA   the group -> its topics; written by older brokers only, and removed
    16               EXPRESSION           a regular expression -> the topics that it matched
              15     SHARE_PARTITIONS     the group -> the partitions whose share state is known to the share coordinator

Rules: immutable values; no IO. The number of a kind is the version of the record's key. Subscriptions and what members own are
values of the two kinds of groups, and so is what only one of them has.
Source: Kafka CoordinatorRecordType, TargetAssignmentMetadata, Assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from coordinator.group.assigned.assignor import TopicPartitions


class EntryKind(IntEnum):
    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    SUBSCRIPTION = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    SHARE_SUBSCRIPTION = 10
    SHARE_GROUP_EPOCH = 11
    SHARE_TARGET_EPOCH = 12
    SHARE_TARGET = 13
    SHARE_CURRENT = 14
    SHARE_PARTITIONS = 15
    EXPRESSION = 16


@dataclass(frozen=True, slots=True)
class CommonKinds:
    """The kinds of entries that each kind of group has. `name` is what clients call the kind of group."""

    name: str
    group_epoch: EntryKind
    subscription: EntryKind
    target_epoch: EntryKind
    target: EntryKind
    current: EntryKind


CONSUMER_KINDS = CommonKinds(
    "consumer",
    EntryKind.GROUP_EPOCH,
    EntryKind.SUBSCRIPTION,
    EntryKind.TARGET_EPOCH,
    EntryKind.TARGET,
    EntryKind.CURRENT,
)
SHARE_KINDS = CommonKinds(
    "share",
    EntryKind.SHARE_GROUP_EPOCH,
    EntryKind.SHARE_SUBSCRIPTION,
    EntryKind.SHARE_TARGET_EPOCH,
    EntryKind.SHARE_TARGET,
    EntryKind.SHARE_CURRENT,
)


@dataclass(frozen=True, slots=True)
class EntryKey:
    """`name`: the member's id or the expression; empty for an entry of the group."""

    kind: EntryKind
    group_id: str
    name: str = ""

    @property
    def is_of_share_group(self) -> bool:
        return EntryKind.SHARE_SUBSCRIPTION <= self.kind <= EntryKind.SHARE_PARTITIONS


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


NO_TARGET_EPOCH = TargetEpoch(1, 0)
NO_GROUP_EPOCH = GroupEpoch(1, 0)
"""That of a new group: its members have an epoch above 0 also when nothing has called for a new one."""
