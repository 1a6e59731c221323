"""The target assignment of a group: when it is computed, and what it is computed from.

A group whose epoch is above that of its target gets a new one with the next heartbeat, but not more often than its assignment
interval allows. A small group's is computed at once. That of a large one is computed outside the shard, while members go on
with the target they have; its outcome comes as an operation.

Rules: no IO. A computed target is taken for the members that are still in the group, unless the epoch that it is for was taken
back.
Invariant: the records of members precede that of the target's epoch, so that a target that is stored in part is computed again.
Source: Kafka GroupMetadataManager.maybeUpdateTargetAssignment, TargetAssignmentBuilder (KIP-848); the interval is that of
KIP-1263.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from coordinator.group.assigned.assignor import Assignment, MemberInput, Steps, run_all
from coordinator.group.assigned.entries import EntryKey, EntryKind, Target, TargetEpoch
from coordinator.group.assigned.group import AssignedGroup
from coordinator.group.assigned.journal import Journal
from coordinator.group.events import TargetComputed
from coordinator.runtime.contract import Command, CoordinatorRecord

# Members and partitions up to which a target is computed within a heartbeat: some milliseconds. Heartbeats that come while one
# is computed outside get their part an interval later.
INLINE_MAX = 2_500


@dataclass(frozen=True, slots=True)
class Computation:
    """What a target is computed from: `steps` begins to. `work`: the members and partitions there are."""

    assignor_name: str
    members: Mapping[str, MemberInput]
    steps: Callable[[], Steps]
    work: int


@dataclass(frozen=True, slots=True)
class ComputeTarget(Command):
    """Compute the target of a group outside the shard and pass it to `GroupShard.on_target_computed`. `kind` is that of the
    entries which the target becomes."""

    group_id: str
    kind: EntryKind
    epoch: int
    computation: Computation


@dataclass(frozen=True, slots=True)
class ComputedTarget:
    """One part of a computed target, or all of it: `assignment` has some members, and is followed by others unless `is_last`.
    `records` are those of the members whose target has changed, by member id. `failure` says why there is none."""

    group_id: str
    kind: EntryKind
    epoch: int
    assignor_name: str
    assignment: Assignment
    records: Mapping[str, CoordinatorRecord]
    is_last: bool = True
    failure: str | None = None


G_contra = TypeVar("G_contra", bound=AssignedGroup[Any, Any], contravariant=True)
G = TypeVar("G", bound=AssignedGroup[Any, Any])


class TargetInputs(Protocol[G_contra]):
    """What targets of one kind of group are computed from."""

    def interval_ms(self, group_id: str) -> int:
        """The least time between two targets."""

    def computation(self, group: G_contra) -> Computation: ...


class Targets(Generic[G]):
    """The targets of the groups of one kind, of a shard."""

    def __init__(self, inputs: TargetInputs[G]) -> None:
        self._inputs = inputs

    def update(self, group: G, journal: Journal, now_ms: int) -> None:
        """Compute the target of the group's epoch, if that is due; or have it computed."""
        if group.target_epoch >= group.epoch or not self._is_due(group, now_ms):
            return
        if group.computing_epoch is not None:
            return
        computation = self._inputs.computation(group)
        kind, epoch, name = group.kinds.target, group.epoch, computation.assignor_name
        if computation.work > INLINE_MAX:
            group.computing_epoch = epoch
            command = ComputeTarget(group.group_id, kind, epoch, computation)
            journal.then(command, undo=lambda: setattr(group, "computing_epoch", None))
            return
        computed = ComputedTarget(group.group_id, kind, epoch, name, run_all(computation.steps()), {})
        self._take(group, computed, journal, now_ms)

    def computed(self, group: G, computed: ComputedTarget, journal: Journal, now_ms: int) -> None:
        """A target was computed outside. A part of it is taken unless one before it was refused."""
        if computed.kind is not group.kinds.target or group.computing_epoch != computed.epoch:
            return
        if computed.is_last or computed.failure is not None:
            group.computing_epoch = None
        if computed.failure is None and group.target_epoch < computed.epoch <= group.epoch:
            journal.then_undo(lambda: setattr(group, "computing_epoch", None))
            self._take(group, computed, journal, now_ms)

    def _take(self, group: G, computed: ComputedTarget, journal: Journal, now_ms: int) -> None:
        for member_id, partitions in computed.assignment.items():
            if member_id not in group.subscriptions:
                continue
            present = group.targets.get(member_id)
            if present is None or (present.partitions is not partitions and present.partitions != partitions):
                key = EntryKey(group.kinds.target, group.group_id, member_id)
                journal.put(group, key, Target(partitions), computed.records.get(member_id))
        if not computed.is_last:
            return
        epoch = TargetEpoch(computed.epoch, now_ms)
        journal.put(group, EntryKey(group.kinds.target_epoch, group.group_id), epoch)
        journal.then(TargetComputed(group.group_id, computed.epoch, computed.assignor_name, len(group.subscriptions)))

    def _is_due(self, group: G, now_ms: int) -> bool:
        interval_ms = self._inputs.interval_ms(group.group_id)
        last_ms = group.target_timestamp_ms
        # A clock that was set back must not stop the group until it is where it was.
        return last_ms == 0 or interval_ms == 0 or not last_ms <= now_ms < last_ms + interval_ms
