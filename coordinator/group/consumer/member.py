"""A member of a consumer group: what it asked for, and what it owns.

    STABLE                 the member owns what its epoch gives it
    UNREVOKED_PARTITIONS   the member has to give up partitions before it moves to the next epoch
    UNRELEASED_PARTITIONS  the member waits for partitions that others still own
    UNKNOWN                a state that a newer broker stored; the member has to join again

Rules: immutable values. A member of the classic protocol is one with a `classic` part; nothing else of it differs.
Source: Kafka ConsumerGroupMember, MemberState, ConsumerGroupMemberMetadataValue, ConsumerGroupCurrentMemberAssignmentValue
(KIP-848); the epoch of each partition is that of KIP-1251.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
JOIN_EPOCH = 0
NO_EPOCH = -1

# By topic id and partition: the member epoch in which the partition was assigned.
PartitionEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]


class MemberState(IntEnum):
    """The value is that of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicPart:
    """What only a member of the classic protocol has. `protocols`: (name, metadata) in its order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member asked for. `topic_regex` is empty when it has none. `rebalance_timeout_ms` -1: not given."""

    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicPart | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member owns: `assigned` is its own, `pending_revocation` it has to give up and still owns."""

    member_epoch: int = 0
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def owns(self, topic_id: bytes, partition: int) -> bool:
        return partition in self.assigned.get(topic_id, ()) or partition in self.pending_revocation.get(topic_id, ())

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which the partition was assigned; None for one that the member does not own."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch


NOTHING_OWNED = CurrentAssignment()
NO_SUBSCRIPTION = Subscription()
