"""The entries of a consumer group, and those that only consumer groups have.

Rules: immutable values; no IO.
Source: Kafka ResolvedRegularExpression, ConsumerGroupPartitionMetadataValue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from coordinator.group.assigned.entries import GroupEpoch, Target, TargetEpoch
from coordinator.group.consumer.member import CurrentAssignment, Subscription


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """`version` grows with the topics of the cluster: an expression of an older version may match more topics by now."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StoredTopics:
    """That the record is there: nothing of it is used."""


ConsumerEntry: TypeAlias = (
    GroupEpoch | TargetEpoch | Target | ResolvedExpression | StoredTopics | Subscription | CurrentAssignment
)
