"""A consumer group: its entries, what follows from them, and its state.

              first member joins           target is computed            every member owns its target
       EMPTY ---------------------> ASSIGNING ------------> RECONCILING ------------------------> STABLE
         ^                              ^                        |                                  |
         |     no member left           |      member comes, goes, changes; topics change           |
         +------------------------------+-----------------------------------------------------------+

Rules: as every group with broker-side assignment (`assigned/group.py`).
Invariants: a partition has at most one owner, its entry in `owners`; what is counted here follows from the entries alone.
Source: Kafka ConsumerGroup (KIP-848). Kafka keeps the epoch in which a partition is owned where this group keeps
its owner.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, cast

from coordinator.group.assigned.entries import (
    CONSUMER_KINDS,
    CommonKinds,
    EntryKey,
    EntryKind,
    GroupEpoch,
    Target,
    TargetEpoch,
)
from coordinator.group.assigned.group import AssignedGroup, count, put_entry
from coordinator.group.consumer.entries import ResolvedExpression, StoredTopics
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


class ConsumerGroup(AssignedGroup[Subscription, CurrentAssignment]):
    kinds: ClassVar[CommonKinds] = CONSUMER_KINDS

    __slots__ = (
        "_has_partition_metadata",
        "_reconciled",
        "assignors",
        "classic_members_count",
        "classic_protocols",
        "expressions",
        "members_by_expression",
        "owners",
        "resolved_topics",
        "resolving",
        "static_members",
        "told_to_rejoin",
    )

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        super().__init__(group_id, offsets)
        self._has_partition_metadata = False
        self.expressions: dict[str, ResolvedExpression] = {}
        # What follows from the entries.
        self.owners: dict[bytes, dict[int, str]] = {}
        self.static_members: dict[str, str] = {}
        self.members_by_expression: Counter[str] = Counter()
        self.resolved_topics: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members_count = 0  # members of the classic protocol, and how many support each of its assignors
        self.classic_protocols: Counter[str] = Counter()
        self._reconciled: Counter[int] = Counter()  # members in state STABLE, by their epoch
        # Soft: whether expressions are being matched.
        self.resolving = False
        # Members of the classic protocol that were told to join again, and have not.
        self.told_to_rejoin: set[str] = set()

    # --- the group -------------------------------------------------------------------------------------------------

    @property
    def has_partition_metadata(self) -> bool:
        return self._has_partition_metadata

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
        return super().has_entries or bool(self.expressions)

    @property
    def is_idle(self) -> bool:
        """Without members, and without offsets now or soon."""
        return self.is_empty and not self.offsets.is_in_use

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.members_by_topic or topic in self.resolved_topics

    def subscribed_topics(self) -> set[str]:
        return {*self.members_by_topic, *self.resolved_topics}

    # --- members ---------------------------------------------------------------------------------------------------

    def current(self, member_id: str) -> CurrentAssignment:
        return self.currents.get(member_id, NOTHING_OWNED)

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

    def put_other(self, key: EntryKey, entry: object | None) -> object | None:
        if key.kind is EntryKind.EXPRESSION:
            return self._put_expression(key.name, cast("ResolvedExpression | None", entry))
        assert key.kind is EntryKind.PARTITION_METADATA, key
        old = StoredTopics() if self._has_partition_metadata else None
        self._has_partition_metadata = entry is not None
        return old

    def other_keys(self) -> list[EntryKey]:
        keys = [EntryKey(EntryKind.EXPRESSION, self.group_id, expression) for expression in self.expressions]
        if self._has_partition_metadata:
            keys.append(EntryKey(EntryKind.PARTITION_METADATA, self.group_id))
        return keys

    def put_subscription(self, member_id: str, new: Subscription | None) -> Subscription | None:
        old = super().put_subscription(member_id, new)
        if (old is None) != (new is None):
            self._count_reconciled(self.current(member_id), +1 if old is None else -1)
        before, after = old or NO_SUBSCRIPTION, new or NO_SUBSCRIPTION
        if before.topic_regex != after.topic_regex:
            count(self.members_by_expression, [before.topic_regex] if before.topic_regex else (), -1)
            count(self.members_by_expression, [after.topic_regex] if after.topic_regex else (), +1)
        if before.server_assignor != after.server_assignor:
            count(self.assignors, [before.server_assignor] if before.server_assignor else (), -1)
            count(self.assignors, [after.server_assignor] if after.server_assignor else (), +1)
        if before.classic != after.classic:
            self._count_classic(before.classic, -1)
            self._count_classic(after.classic, +1)
        if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
            del self.static_members[before.instance_id]
        if after.instance_id is not None:
            self.static_members[after.instance_id] = member_id
        return old

    def put_current(self, member_id: str, new: CurrentAssignment | None) -> CurrentAssignment | None:
        old = put_entry(self.currents, member_id, new)
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
        old = put_entry(self.expressions, expression, new)
        if old is not None:
            count(self.resolved_topics, old.topics, -1)
        if new is not None:
            count(self.resolved_topics, new.topics, +1)
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
            count(self.classic_protocols, frozenset(name for name, _ in classic.protocols), step)

    def _count_reconciled(self, current: CurrentAssignment, step: int) -> None:
        if current.state is MemberState.STABLE:
            count(self._reconciled, [current.member_epoch], step)

    def durable_state(self) -> DurableConsumerGroup:
        return DurableConsumerGroup(
            self._epoch,
            self._target_epoch,
            dict(self.subscriptions),
            dict(self.targets),
            dict(self.currents),
            dict(self.expressions),
        )
