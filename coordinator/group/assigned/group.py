"""What a group has to whose members the coordinator assigns: epochs, members, targets, and what each member has.

Rules: no IO, no clock. `put` alone changes what is durable: one entry for each record, so that whoever replays the records has
the same group.
Invariants: `epoch` only grows; `is_dead` until its tombstones are committed; what is counted here follows from the entries
alone.
Source: Kafka ModernGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar, Generic, Protocol, TypeVar, cast

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.assigned.entries import (
    NO_GROUP_EPOCH,
    NO_TARGET_EPOCH,
    CommonKinds,
    EntryKey,
    EntryKind,
    GroupEpoch,
    Target,
    TargetEpoch,
)
from coordinator.group.offsets import GroupOffsets


class AnySubscription(Protocol):
    """What a member asked for, in any kind of group."""

    @property
    def topic_names(self) -> frozenset[str]: ...


S = TypeVar("S", bound=AnySubscription)
C = TypeVar("C")
E = TypeVar("E")
K = TypeVar("K")


class AssignedGroup(Generic[S, C]):
    """Owned by the shard, from the first member's heartbeat or a loaded record until its tombstones are committed. `S`: what a
    member asked for; `C`: what it has."""

    kinds: ClassVar[CommonKinds]

    __slots__ = (
        "_epoch",
        "_target_epoch",
        "computing_epoch",
        "currents",
        "group_id",
        "is_dead",
        "members_by_topic",
        "needs_refresh",
        "offsets",
        "subscriptions",
        "targets",
    )

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        """`offsets` are those of the group id: they stay when the group becomes one of another kind."""
        self.group_id = group_id
        self.offsets = GroupOffsets() if offsets is None else offsets
        self.is_dead = False
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self.subscriptions: dict[str, S] = {}
        self.currents: dict[str, C] = {}
        self.targets: dict[str, Target] = {}
        self.members_by_topic: Counter[str] = Counter()
        # Soft: whether the topics may have changed since the hash was computed; the epoch that a target is being computed for
        # outside the shard.
        self.needs_refresh = True
        self.computing_epoch: int | None = None

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
    def is_empty(self) -> bool:
        """Without members, and not being removed."""
        return not self.subscriptions and not self.is_dead

    @property
    def has_entries(self) -> bool:
        return bool(self._epoch or self._target_epoch or self.subscriptions or self.currents or self.targets)

    @property
    def is_forgettable(self) -> bool:
        """Nothing durable: the group may be removed from memory."""
        return not self.has_entries and not self.offsets.is_in_use

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.members_by_topic

    def subscribed_topics(self) -> set[str]:
        return set(self.members_by_topic)

    def topics_of(self, subscription: S) -> frozenset[str]:
        """The topics that a member reads."""
        return subscription.topic_names

    def target(self, member_id: str) -> TopicPartitions:
        found = self.targets.get(member_id)
        return {} if found is None else found.partitions

    def die(self) -> None:
        """The tombstones of the group are appended: it refuses every request."""
        assert self.is_empty
        self.is_dead = True

    def revive(self) -> None:
        """The deletion failed: the group is empty again."""
        self.is_dead = False

    # --- durable ---------------------------------------------------------------------------------------------------

    def put(self, key: EntryKey, entry: object | None) -> object | None:
        """Take `entry` in place of what `key` had, None to remove it. Returns what it had."""
        kinds = self.kinds
        old: object | None
        if key.kind is kinds.group_epoch:
            old, self._epoch = self._epoch, cast("GroupEpoch | None", entry)
        elif key.kind is kinds.target_epoch:
            old, self._target_epoch = self._target_epoch, cast("TargetEpoch | None", entry)
        elif key.kind is kinds.target:
            old = put_entry(self.targets, key.name, cast("Target | None", entry))
        elif key.kind is kinds.current:
            old = self.put_current(key.name, cast("C | None", entry))
        elif key.kind is kinds.subscription:
            old = self.put_subscription(key.name, cast("S | None", entry))
        else:
            old = self.put_other(key, entry)
        return old

    def put_subscription(self, member_id: str, new: S | None) -> S | None:
        old = put_entry(self.subscriptions, member_id, new)
        before = frozenset() if old is None else old.topic_names
        after = frozenset() if new is None else new.topic_names
        if before != after:
            count(self.members_by_topic, before, -1)
            count(self.members_by_topic, after, +1)
        return old

    def put_current(self, member_id: str, new: C | None) -> C | None:
        return put_entry(self.currents, member_id, new)

    def put_other(self, key: EntryKey, entry: object | None) -> object | None:
        """An entry that only this kind of group has."""
        raise AssertionError(f"no entry of this kind of group: {key}")

    def stored_keys(self) -> list[EntryKey]:
        """The keys of all that is stored, in the order in which they are removed."""
        kinds = self.kinds
        return [
            *self._keys(kinds.current, self.currents),
            *self._keys(kinds.target, self.targets),
            EntryKey(kinds.target_epoch, self.group_id),
            *self._keys(kinds.subscription, self.subscriptions),
            *self.other_keys(),
            EntryKey(kinds.group_epoch, self.group_id),
        ]

    def other_keys(self) -> list[EntryKey]:
        """Those of the entries that only this kind of group has."""
        return []

    def _keys(self, kind: EntryKind, names: Iterable[str]) -> list[EntryKey]:
        return [EntryKey(kind, self.group_id, name) for name in names]


def put_entry(table: dict[str, E], name: str, new: E | None) -> E | None:
    old = table.get(name)
    if new is None:
        table.pop(name, None)
    else:
        table[name] = new
    return old


def count(counter: Counter[K], keys: Iterable[K], step: int) -> None:
    """Count `keys`; one with the count 0 is removed."""
    for key in keys:
        number = counter[key] + step
        if number:
            counter[key] = number
        else:
            del counter[key]
