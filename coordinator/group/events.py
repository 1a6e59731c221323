"""The events that a group shard reports for logs and metrics, in the past tense; `coordinator.group_observation` logs and
counts them.

Source of the metrics: kafka.coordinator.group and kafka.server:type=group-coordinator-metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coordinator.runtime.contract import ShardEvent


class RebalanceReason(Enum):
    """The reason of a rebalance; each has a counter, so that every rebalance can be explained. The last one is that of consumer
    groups."""

    MEMBER_JOINED = "member-joined"
    MEMBER_CHANGED = "member-changed"
    LEADER_REJOINED = "leader-rejoined"
    STATIC_MEMBER_REPLACED = "static-member-replaced"
    MEMBER_LEFT = "member-left"
    SESSION_EXPIRED = "session-expired"
    SYNC_MISSING = "sync-missing"
    ASSIGNMENT_NOT_STORED = "assignment-not-stored"
    OVER_CAPACITY = "over-capacity"
    EPOCH_RAISED = "epoch-raised"
    GROUP_CONVERTED = "group-converted"


@dataclass(frozen=True, slots=True)
class RebalanceStarted(ShardEvent):
    """`member_ids` caused it; `detail` is the client's own reason, or the error."""

    group_id: str
    generation_id: int
    members_count: int
    reason: RebalanceReason
    member_ids: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceCompleted(ShardEvent):
    """Every member of `generation_id` got its JoinGroup response; without members the group is empty."""

    group_id: str
    generation_id: int
    leader_id: str | None
    protocol_name: str | None
    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssignmentReceived(ShardEvent):
    """The leader sent the assignment; the members `missing` in it got an empty one."""

    group_id: str
    generation_id: int
    leader_id: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MembersRemoved(ShardEvent):
    """`why` completes the sentence "removed members ...: they"."""

    group_id: str
    member_ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class MemberFenced(ShardEvent):
    group_id: str
    group_instance_id: str
    member_id: str
    current_member_id: str


@dataclass(frozen=True, slots=True)
class AssignedMemberJoined(ShardEvent):
    """A member of a group with broker-side assignment is new, or a static one came back in place of `replaced_id`."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    replaced_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupEpochBumped(ShardEvent):
    """A group needs a new target assignment; `why` says what changed, `kind` is `consumer` or `share`."""

    group_id: str
    epoch: int
    members_count: int
    why: str
    kind: str


@dataclass(frozen=True, slots=True)
class TargetComputed(ShardEvent):
    """`epoch` is the group's epoch that the target assignment is for."""

    group_id: str
    epoch: int
    assignor: str
    members_count: int


@dataclass(frozen=True, slots=True)
class GroupConverted(ShardEvent):
    """A group with members has become one of this kind, `classic` or `consumer`, in this generation or epoch."""

    group_id: str
    kind: str
    epoch: int
    members_count: int


@dataclass(frozen=True, slots=True)
class ExpressionsNotResolved(ShardEvent):
    group_id: str
    why: str


@dataclass(frozen=True, slots=True)
class ShareStatesNotInitialized(ShardEvent):
    """The share coordinator does not keep the states of some partitions yet; a later heartbeat asks again."""

    group_id: str
    count: int
    error: str


@dataclass(frozen=True, slots=True)
class OffsetsCommitted(ShardEvent):
    group_id: str
    count: int


@dataclass(frozen=True, slots=True)
class OffsetsRemoved(ShardEvent):
    """`expired`: by retention; otherwise an administrator deleted them, or their topic was deleted."""

    group_id: str
    count: int
    expired: bool


@dataclass(frozen=True, slots=True)
class GroupRemoved(ShardEvent):
    group_id: str
    generation_id: int


@dataclass(frozen=True, slots=True)
class RecordSkipped(ShardEvent):
    """A record of an unknown type, or one that does not decode, was skipped."""

    partition: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class WaitingMemoryFull(ShardEvent):
    """New members are refused from now on: requests that wait for their groups use too much memory."""

    group_id: str
    used_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class AppendFailed(ShardEvent):
    """`what` could not be stored, and no client waits for a response that would say so."""

    group_id: str
    what: str
    error: str
