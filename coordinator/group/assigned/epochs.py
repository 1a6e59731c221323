"""The epoch of a group: it grows when a target has to be computed, because members or topics have changed.

Rules: no IO. Every change goes through the journal.
Source: Kafka GroupMetadataManager, ModernGroup.computeMetadataHash.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from coordinator.group.assigned.entries import EntryKey, GroupEpoch
from coordinator.group.assigned.group import AssignedGroup
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.events import GroupEpochBumped

AnyAssigned: TypeAlias = AssignedGroup[Any, Any]


class Epochs:
    """Of the groups of a shard."""

    def __init__(self, topics: GroupTopics) -> None:
        self._topics = topics

    def bump(self, group: AnyAssigned, journal: Journal, why: str) -> None:
        """Give the group a new epoch, for which a target has to be computed."""
        self._bump(group, journal, why, self._topics.hash_of(group.subscribed_topics()))

    def refresh(self, group: AnyAssigned, journal: Journal) -> bool:
        """Give the group a new epoch if its topics have changed. Returns whether."""
        metadata_hash = self._topics.hash_of(group.subscribed_topics())
        if metadata_hash == group.metadata_hash:
            group.needs_refresh = False
            return False
        self._bump(group, journal, "topics changed", metadata_hash)
        return True

    def _bump(self, group: AnyAssigned, journal: Journal, why: str, metadata_hash: int) -> None:
        entry = GroupEpoch(group.epoch + 1, metadata_hash)
        journal.put(group, EntryKey(group.kinds.group_epoch, group.group_id), entry)
        journal.then(GroupEpochBumped(group.group_id, entry.epoch, len(group.subscriptions), why, group.kinds.name))
        group.needs_refresh = False
