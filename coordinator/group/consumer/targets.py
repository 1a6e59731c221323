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

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.group.consumer.assignors import ASSIGNORS
from coordinator.group.consumer.assignors.contract import Assignment, Assignor, MemberInput, TopicPartitions
from coordinator.group.consumer.entries import EntryKey, EntryKind, Target, TargetEpoch
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.journal import Journal
from coordinator.group.consumer.settings import GroupConfigs
from coordinator.group.consumer.topics import ConsumerTopics
from coordinator.group.events import TargetComputed
from coordinator.runtime.contract import Command, CoordinatorRecord

# Members and partitions up to which a target is computed within a heartbeat: some milliseconds. Heartbeats that come while one
# is computed outside get their part an interval later.
INLINE_MAX = 2_500


@dataclass(frozen=True, slots=True)
class ComputeTarget(Command):
    """Compute the target of a group outside the shard and pass it to `GroupShard.on_target_computed`."""

    group_id: str
    epoch: int
    assignor: Assignor
    members: Mapping[str, MemberInput]
    topics: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class ComputedTarget:
    """One part of a computed target, or all of it: `assignment` has some members, and is followed by others unless `is_last`.
    `records` are those of the members whose target has changed, by member id. `failure` says why there is none."""

    group_id: str
    epoch: int
    assignor_name: str
    assignment: Assignment
    records: Mapping[str, CoordinatorRecord]
    is_last: bool = True
    failure: str | None = None


class Targets:
    """The targets of the groups of a shard."""

    def __init__(self, configs: GroupConfigs, topics: ConsumerTopics) -> None:
        self._configs = configs
        self._topics = topics

    def update(self, group: ConsumerGroup, journal: Journal, now_ms: int) -> None:
        """Compute the target of the group's epoch, if that is due; or have it computed."""
        if group.target_epoch >= group.epoch or not self._is_due(group, now_ms):
            return
        if group.computing_epoch is not None:
            return
        name = group.preferred_assignor(self._configs.settings.assignors)
        members, topics = self._inputs(group)
        if len(members) + sum(topics.values()) > INLINE_MAX:
            group.computing_epoch = group.epoch
            command = ComputeTarget(group.group_id, group.epoch, ASSIGNORS[name], members, topics)
            journal.then(command, undo=lambda: setattr(group, "computing_epoch", None))
            return
        computed = ComputedTarget(group.group_id, group.epoch, name, ASSIGNORS[name](members, topics), {})
        self._take(group, computed, journal, now_ms)

    def computed(self, group: ConsumerGroup, computed: ComputedTarget, journal: Journal, now_ms: int) -> None:
        """A target was computed outside. A part of it is taken unless one before it was refused."""
        if group.computing_epoch != computed.epoch:
            return
        if computed.is_last or computed.failure is not None:
            group.computing_epoch = None
        if computed.failure is None and group.target_epoch < computed.epoch <= group.epoch:
            journal.then_undo(lambda: setattr(group, "computing_epoch", None))
            self._take(group, computed, journal, now_ms)

    def _take(self, group: ConsumerGroup, computed: ComputedTarget, journal: Journal, now_ms: int) -> None:
        for member_id, partitions in computed.assignment.items():
            if member_id not in group.subscriptions:
                continue
            present = group.targets.get(member_id)
            if present is None or (present.partitions is not partitions and present.partitions != partitions):
                key = EntryKey(EntryKind.TARGET, group.group_id, member_id)
                journal.put(group, key, Target(partitions), computed.records.get(member_id))
        if not computed.is_last:
            return
        epoch = TargetEpoch(computed.epoch, now_ms)
        journal.put(group, EntryKey(EntryKind.TARGET_EPOCH, group.group_id), epoch)
        journal.then(TargetComputed(group.group_id, computed.epoch, computed.assignor_name, len(group.subscriptions)))

    def _is_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        interval_ms = self._configs.of(group.group_id).assignment_interval_ms
        last_ms = group.target_timestamp_ms
        # A clock that was set back must not stop the group until it is where it was.
        return last_ms == 0 or interval_ms == 0 or not last_ms <= now_ms < last_ms + interval_ms

    def _inputs(self, group: ConsumerGroup) -> tuple[dict[str, MemberInput], dict[bytes, int]]:
        members = {}
        topics: dict[bytes, int] = {}
        nothing: TopicPartitions = {}
        for member_id, subscription in group.subscriptions.items():
            topic_ids = self._topics.ids_of(group.topics_of(subscription))
            target = group.targets.get(member_id)
            owned = nothing if target is None else target.partitions
            members[member_id] = MemberInput(subscription.instance_id, topic_ids, owned)
            for topic_id in topic_ids - topics.keys():
                topics[topic_id] = self._topics.partitions_count(topic_id)
        return members, topics
