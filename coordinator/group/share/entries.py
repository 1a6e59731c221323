"""The entries of a share group, and the one that only share groups have: which share partitions the group has.

    initializing   the share coordinator was asked to keep the state of the partition, and has not said that it does
    initialized    it does: the partition may be assigned
    deleting       it was asked to forget the states of the topic, and has not said that it has

Rules: immutable values; no IO.
Source: Kafka ShareGroupStatePartitionMetadataValue, ShareGroup.ShareGroupStatePartitionMetadataInfo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.assigned.entries import GroupEpoch, Target, TargetEpoch
from coordinator.group.share.member import ShareAssignment, ShareSubscription


@dataclass(frozen=True, slots=True)
class SharePartitions:
    """`names`: those of the topics, by id, since topics may be gone."""

    initializing: TopicPartitions = field(default_factory=dict)
    initialized: TopicPartitions = field(default_factory=dict)
    deleting: frozenset[bytes] = frozenset()
    names: Mapping[bytes, str] = field(default_factory=dict)


NO_PARTITIONS = SharePartitions()

ShareEntry: TypeAlias = GroupEpoch | TargetEpoch | Target | ShareSubscription | ShareAssignment | SharePartitions
