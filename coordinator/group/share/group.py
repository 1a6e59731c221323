"""A share group: its entries, what follows from them, and its state.

              first member joins
       EMPTY --------------------> STABLE
         ^    no member left         |
         +---------------------------+

Several members may have one partition, so a member takes its new target with its next heartbeat, and there is no state
in between.

Rules: as every group with broker-side assignment (`assigned/group.py`). A partition is assigned when the share coordinator
keeps its state (`partitions`).
Source: Kafka ShareGroup (KIP-932).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, cast

from coordinator.group.assigned.entries import (
    SHARE_KINDS,
    CommonKinds,
    EntryKey,
    EntryKind,
    GroupEpoch,
    Target,
    TargetEpoch,
)
from coordinator.group.assigned.group import AssignedGroup
from coordinator.group.offsets import GroupOffsets
from coordinator.group.share.entries import NO_PARTITIONS, SharePartitions
from coordinator.group.share.member import NOTHING_ASSIGNED, ShareAssignment, ShareSubscription


class ShareGroupState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class DurableShareGroup:
    """What a replay of the group's records yields again."""

    epoch: GroupEpoch | None
    target_epoch: TargetEpoch | None
    subscriptions: dict[str, ShareSubscription]
    targets: dict[str, Target]
    currents: dict[str, ShareAssignment]
    partitions: SharePartitions | None


class ShareGroup(AssignedGroup[ShareSubscription, ShareAssignment]):
    kinds: ClassVar[CommonKinds] = SHARE_KINDS

    __slots__ = (
        "_partitions",
        "asked_at_ms",
        "failed_at_ms",
        "forgetting",
        "is_outcome_unknown",
        "lacks_partitions",
        "lacks_target",
    )

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None, *, is_new: bool = False) -> None:
        """`is_new`: it was not loaded, so that no other coordinator has asked for anything."""
        super().__init__(group_id, offsets)
        self._partitions: SharePartitions | None = None
        # Soft: whether members may read partitions that are not initialized, and whether initialized ones may not be in the
        # target; it is found out with the next heartbeat. When the share coordinator was asked about the partitions of a topic,
        # and when it last answered an error. Whether a request to it may still be under way whose outcome will not be known.
        self.lacks_partitions = True
        self.lacks_target = True
        self.asked_at_ms: dict[bytes, int] = {}
        self.failed_at_ms: int | None = None
        self.is_outcome_unknown = not is_new
        # Topics whose states the share coordinator is being asked to forget: they are not asked for meanwhile.
        self.forgetting: frozenset[bytes] = frozenset()

    @property
    def partitions(self) -> SharePartitions:
        return self._partitions or NO_PARTITIONS

    @property
    def has_partitions(self) -> bool:
        """Whether the group has ever asked for the state of a partition."""
        return self._partitions is not None

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.subscriptions else ShareGroupState.EMPTY

    @property
    def has_entries(self) -> bool:
        return super().has_entries or self._partitions is not None

    @property
    def is_idle(self) -> bool:
        """Never: a share group without members stays until somebody deletes it."""
        return False

    def current(self, member_id: str) -> ShareAssignment:
        return self.currents.get(member_id, NOTHING_ASSIGNED)

    # --- durable ---------------------------------------------------------------------------------------------------

    def put(self, key: EntryKey, entry: object | None) -> object | None:
        old = super().put(key, entry)
        if key.kind in (EntryKind.SHARE_PARTITIONS, EntryKind.SHARE_SUBSCRIPTION):
            self.lacks_partitions = self.lacks_target = True
        elif key.kind is EntryKind.SHARE_TARGET:
            self.lacks_target = True
        return old

    def put_other(self, key: EntryKey, entry: object | None) -> object | None:
        assert key.kind is EntryKind.SHARE_PARTITIONS, key
        old, self._partitions = self._partitions, cast("SharePartitions | None", entry)
        return old

    def other_keys(self) -> list[EntryKey]:
        return [EntryKey(EntryKind.SHARE_PARTITIONS, self.group_id)]

    def durable_state(self) -> DurableShareGroup:
        return DurableShareGroup(
            self._epoch,
            self._target_epoch,
            dict(self.subscriptions),
            dict(self.targets),
            dict(self.currents),
            self._partitions,
        )
