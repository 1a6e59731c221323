"""A member of a share group: what it asked for, and what it was assigned.

Rules: immutable values. Several members may have one partition, so a member takes its target as it is and gives nothing up.
Source: Kafka ShareGroupMember, ShareGroupMemberMetadataValue, ShareGroupCurrentMemberAssignmentValue (KIP-932).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.group.assigned.assignor import TopicPartitions

LEAVE_EPOCH = -1
JOIN_EPOCH = 0
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ShareSubscription:
    topic_names: frozenset[str] = frozenset()
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class ShareAssignment:
    member_epoch: int = 0
    previous_epoch: int = NO_EPOCH
    assigned: TopicPartitions = field(default_factory=dict)


NO_SUBSCRIPTION = ShareSubscription()
NOTHING_ASSIGNED = ShareAssignment()
