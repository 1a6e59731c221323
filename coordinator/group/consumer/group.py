"""A consumer group: its entries, what follows from them, and its state.

              first member joins           target is computed            every member owns its target
       EMPTY ---------------------> ASSIGNING ------------> RECONCILING ------------------------> STABLE
         ^                              ^                        |                                  |
         |     no member left           |      member comes, goes, changes; topics change           |
         +------------------------------+-----------------------------------------------------------+

Rules: no IO, no clock. `put` alone changes what is durable: one entry for each record, so that whoever replays the records has
the same group.
Invariants: a partition has at most one owner, its entry in `owners`; `epoch` only grows; `is_dead` until its tombstones are
committed; what is counted here follows from the entries alone.
Source: Kafka ConsumerGroup, ModernGroup (KIP-848). Kafka keeps the epoch in which a partition is owned where this group keeps
its owner.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar, cast

from coordinator.group.consumer.assignors.contract import TopicPartitions
from coordinator.group.consumer.entries import (
    NO_GROUP_EPOCH,
    NO_TARGET_EPOCH,
    Entry,
    EntryKey,
    EntryKind,
    GroupEpoch,
    ResolvedExpression,
    StoredTopics,
    Target,
    TargetEpoch,
)
from coordinator.group.consumer.member import (
    NO_SUBSCRIPTION,
    NOTHING_OWNED,
    ClassicPart,
    CurrentAssignment,
    MemberState,
    PartitionEpochs,
    Subscription,
)
from coordinator.group.offsets import GroupOffsets

E = TypeVar("E")


class ConsumerGroupState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class DurableConsumerGroup:
    """What a replay of the group's records yields again."""

    epoch: GroupEpoch | None
    target_epoch: TargetEpoch | None
    subscriptions: dict[str, Subscription]
    targets: dict[str, Target]
    currents: dict[str, CurrentAssignment]
    expressions: dict[str, ResolvedExpression]


class ConsumerGroup:
    """Owned by the shard, from the first member's heartbeat or a loaded record until its tombstones are committed."""

    __slots__ = (
        "_epoch",
        "_has_partition_metadata",
        "_reconciled",
        "_target_epoch",
        "assignors",
        "classic_members_count",
        "classic_protocols",
        "computing_epoch",
        "currents",
        "expressions",
        "group_id",
        "is_dead",
        "members_by_expression",
        "members_by_topic",
        "needs_refresh",
        "offsets",
        "owners",
        "resolved_topics",
        "resolving",
        "static_members",
        "subscriptions",
        "targets",
        "told_to_rejoin",
    )

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        """`offsets` are those of the group id: they stay when the group becomes one of another kind."""
        self.group_id = group_id
        self.offsets = GroupOffsets() if offsets is None else offsets
        self.is_dead = False
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._has_partition_metadata = False
        self.subscriptions: dict[str, Subscription] = {}
        self.currents: dict[str, CurrentAssignment] = {}
        self.targets: dict[str, Target] = {}
        self.expressions: dict[str, ResolvedExpression] = {}
        # What follows from the entries.
        self.owners: dict[bytes, dict[int, str]] = {}
        self.static_members: dict[str, str] = {}
        self.members_by_topic: Counter[str] = Counter()
        self.members_by_expression: Counter[str] = Counter()
        self.resolved_topics: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members_count = 0  # members of the classic protocol, and how many support each of its assignors
        self.classic_protocols: Counter[str] = Counter()
        self._reconciled: Counter[int] = Counter()  # members in state STABLE, by their epoch
        # Soft: whether the topics may have changed since the hash was computed; whether expressions are being matched;
        # the epoch that a target is being computed for outside the shard.
        self.needs_refresh = True
        self.resolving = False
        self.computing_epoch: int | None = None
        # Members of the classic protocol that were told to join again, and have not.
        self.told_to_rejoin: set[str] = set()

    # --- the group -------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return (self._epoch or NO_GROUP_EPOCH).epoch

    @property
    def metadata_hash(self) -> int:
        return (self._epoch or NO_GROUP_EPOCH).metadata_hash

    @property
    def target_epoch(self) -> int:
        return (self._target_epoch or NO_TARGET_EPOCH).epoch

    @property
    def target_timestamp_ms(self) -> int:
        return (self._target_epoch or NO_TARGET_EPOCH).timestamp_ms

    @property
    def has_partition_metadata(self) -> bool:
        return self._has_partition_metadata

    @property
    def is_empty(self) -> bool:
        """Without members, and not being removed."""
        return not self.subscriptions and not self.is_dead

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.subscriptions:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._reconciled[self.target_epoch] < len(self.subscriptions):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def has_entries(self) -> bool:
        return bool(
            self._epoch or self._target_epoch or self.subscriptions or self.currents or self.targets or self.expressions
        )

    @property
    def is_idle(self) -> bool:
        """Without members, and without offsets now or soon."""
        return self.is_empty and not self.offsets.is_in_use

    @property
    def is_forgettable(self) -> bool:
        """Nothing durable: the group may be removed from memory."""
        return not self.has_entries and not self.offsets.is_in_use

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.members_by_topic or topic in self.resolved_topics

    def subscribed_topics(self) -> set[str]:
        return {*self.members_by_topic, *self.resolved_topics}

    def die(self, now_ms: int) -> None:
        """The tombstones of the group are appended: it refuses every request."""
        assert self.is_empty
        self.is_dead = True

    def revive(self) -> None:
        """The deletion failed: the group is empty again."""
        self.is_dead = False

    # --- members ---------------------------------------------------------------------------------------------------

    def current(self, member_id: str) -> CurrentAssignment:
        return self.currents.get(member_id, NOTHING_OWNED)

    def target(self, member_id: str) -> TopicPartitions:
        found = self.targets.get(member_id)
        return {} if found is None else found.partitions

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """The topics that the member reads by name and by its expression, as far as that is resolved."""
        resolved = self.expressions.get(subscription.topic_regex) if subscription.topic_regex else None
        if resolved is None or not resolved.topics:
            return subscription.topic_names
        return resolved.topics if not subscription.topic_names else subscription.topic_names | resolved.topics

    def preferred_assignor(self, names: tuple[str, ...]) -> str:
        """The one of `names` that most members ask for; the first when none does, or two are asked for equally often."""
        return max(names, key=self.assignors.__getitem__)

    # --- durable ---------------------------------------------------------------------------------------------------

    def put(self, key: EntryKey, entry: Entry | None) -> Entry | None:
        """Take `entry` in place of what `key` had, None to remove it. Returns what it had."""
        match key.kind:
            case EntryKind.GROUP_EPOCH:
                old: Entry | None = self._epoch
                self._epoch = cast("GroupEpoch | None", entry)
            case EntryKind.TARGET_EPOCH:
                old = self._target_epoch
                self._target_epoch = cast("TargetEpoch | None", entry)
            case EntryKind.TARGET:
                old = _put(self.targets, key.name, cast("Target | None", entry))
            case EntryKind.CURRENT:
                old = self._put_current(key.name, cast("CurrentAssignment | None", entry))
            case EntryKind.SUBSCRIPTION:
                old = self._put_subscription(key.name, cast("Subscription | None", entry))
            case EntryKind.EXPRESSION:
                old = self._put_expression(key.name, cast("ResolvedExpression | None", entry))
            case EntryKind.PARTITION_METADATA:
                old = StoredTopics() if self._has_partition_metadata else None
                self._has_partition_metadata = entry is not None
        return old

    def _put_subscription(self, member_id: str, new: Subscription | None) -> Subscription | None:
        old = _put(self.subscriptions, member_id, new)
        if (old is None) != (new is None):
            self._count_reconciled(self.current(member_id), +1 if old is None else -1)
        before, after = old or NO_SUBSCRIPTION, new or NO_SUBSCRIPTION
        if before.topic_names != after.topic_names:
            _change(self.members_by_topic, before.topic_names, -1)
            _change(self.members_by_topic, after.topic_names, +1)
        if before.topic_regex != after.topic_regex:
            _change(self.members_by_expression, [before.topic_regex] if before.topic_regex else (), -1)
            _change(self.members_by_expression, [after.topic_regex] if after.topic_regex else (), +1)
        if before.server_assignor != after.server_assignor:
            _change(self.assignors, [before.server_assignor] if before.server_assignor else (), -1)
            _change(self.assignors, [after.server_assignor] if after.server_assignor else (), +1)
        if before.classic != after.classic:
            self._count_classic(before.classic, -1)
            self._count_classic(after.classic, +1)
        if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
            del self.static_members[before.instance_id]
        if after.instance_id is not None:
            self.static_members[after.instance_id] = member_id
        return old

    def _put_current(self, member_id: str, new: CurrentAssignment | None) -> CurrentAssignment | None:
        old = _put(self.currents, member_id, new)
        if member_id in self.subscriptions:
            self._count_reconciled(old or NOTHING_OWNED, -1)
            self._count_reconciled(new or NOTHING_OWNED, +1)
        if old is not None:
            self._disown(member_id, old.assigned)
            self._disown(member_id, old.pending_revocation)
        if new is not None:
            self._own(member_id, new.assigned)
            self._own(member_id, new.pending_revocation)
        return old

    def _put_expression(self, expression: str, new: ResolvedExpression | None) -> ResolvedExpression | None:
        old = _put(self.expressions, expression, new)
        if old is not None:
            _change(self.resolved_topics, old.topics, -1)
        if new is not None:
            _change(self.resolved_topics, new.topics, +1)
        return old

    def _own(self, member_id: str, partitions: PartitionEpochs) -> None:
        for topic_id, of_topic in partitions.items():
            owners = self.owners.setdefault(topic_id, {})
            for partition in of_topic:
                owners[partition] = member_id

    def _disown(self, member_id: str, partitions: PartitionEpochs) -> None:
        """A partition that another member owns by now is left to it: the log of a group may be read after it was compacted."""
        for topic_id, of_topic in partitions.items():
            owners = self.owners.get(topic_id, {})
            for partition in of_topic:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                self.owners.pop(topic_id, None)

    def _count_classic(self, classic: ClassicPart | None, step: int) -> None:
        if classic is not None:
            self.classic_members_count += step
            _change(self.classic_protocols, frozenset(name for name, _ in classic.protocols), step)

    def _count_reconciled(self, current: CurrentAssignment, step: int) -> None:
        if current.state is MemberState.STABLE:
            _change(self._reconciled, [current.member_epoch], step)

    def durable_state(self) -> DurableConsumerGroup:
        return DurableConsumerGroup(
            self._epoch,
            self._target_epoch,
            dict(self.subscriptions),
            dict(self.targets),
            dict(self.currents),
            dict(self.expressions),
        )


def _put(table: dict[str, E], name: str, new: E | None) -> E | None:
    old = table.get(name)
    if new is None:
        table.pop(name, None)
    else:
        table[name] = new
    return old


K = TypeVar("K")


def _change(counter: Counter[K], keys: frozenset[K] | list[K] | tuple[()], step: int) -> None:
    """Count `keys`; one with the count 0 is removed."""
    for key in keys:
        count = counter[key] + step
        if count:
            counter[key] = count
        else:
            del counter[key]
