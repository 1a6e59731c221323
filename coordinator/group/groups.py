"""The groups of a shard by id, and how a classic group becomes a consumer group, and back. A share group stays what it is.

Rules: no IO. The offsets of an id stay when its group changes its kind. An empty group makes room for the other kind: its own
records are removed with tombstones before those of the new one.
Source: Kafka GroupMetadataManager.getOrMaybeCreateConsumerGroup, getOrMaybeCreatePersistedConsumerGroup,
maybeDeleteEmptyClassicGroup, maybeDeleteEmptyConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from coordinator.group.assigned.journal import Journal
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.records import group_tombstone
from coordinator.group.share.group import ShareGroup
from protocol.errors import ErrorCode, KafkaError

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup


class Groups:
    """Owned by the shard. `limit`: beyond it a client may create no more."""

    def __init__(self, waiting: WaitingBytes, limit: int) -> None:
        self._waiting = waiting
        self._limit = limit
        self._groups: dict[str, AnyGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[AnyGroup]:
        """A snapshot: groups may come and go between two steps."""
        return iter(list(self._groups.values()))

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def ids(self) -> list[str]:
        return list(self._groups)

    @property
    def is_full(self) -> bool:
        return len(self._groups) >= self._limit

    def find(self, group_id: str) -> AnyGroup | None:
        return self._groups.get(group_id)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group if it is a classic one."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def remove(self, group_id: str) -> None:
        del self._groups[group_id]

    # --- classic ---------------------------------------------------------------------------------------------------

    def known_or_classic(self, group_id: str, now_ms: int) -> AnyGroup:
        """The group of the id; a new classic one when there is none."""
        return self._groups.get(group_id) or self.make_classic(group_id, now_ms)

    def make_classic(self, group_id: str, now_ms: int) -> ClassicGroup:
        """A new classic group in place of what the id has; its offsets stay."""
        known = self._groups.get(group_id)
        offsets = None if known is None else known.offsets
        group = self._groups[group_id] = ClassicGroup(group_id, now_ms, self._waiting, offsets)
        return group

    def replace_empty_consumer(self, group: ConsumerGroup, journal: Journal, now_ms: int) -> ClassicGroup:
        """A classic group in place of an empty consumer group, which is removed."""
        assert group.is_empty
        remove_entries(group, journal)
        classic = self.make_classic(group.group_id, now_ms)
        journal.then_undo(lambda: self.put_back(group))
        return classic

    # --- consumer --------------------------------------------------------------------------------------------------

    def make_consumer(self, group_id: str) -> ConsumerGroup:
        """A new consumer group in place of what the id has; its offsets stay."""
        known = self._groups.get(group_id)
        group = ConsumerGroup(group_id) if known is None else ConsumerGroup(group_id, known.offsets)
        self._groups[group_id] = group
        return group

    def consumer(self, group_id: str, kind: str = "Group") -> ConsumerGroup:
        """Raises: KafkaError (GROUP_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE while the group is being removed)."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_dead:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return group

    def consumer_to_join(self, group_id: str, journal: Journal) -> ConsumerGroup:
        """The group that a member joins: a new one if there is none, or an empty classic one.

        Raises: KafkaError (GROUP_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE, GROUP_MAX_SIZE_REACHED).
        """
        known = self._groups.get(group_id)
        if known is None:
            if self.is_full:
                raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
            group = self.make_consumer(group_id)
            journal.then_undo(lambda: self.forget(group))
            return group
        if known.is_dead:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if isinstance(known, ClassicGroup) and known.is_empty:
            return self._replace_empty_classic(known, journal)
        return self.consumer(group_id)

    def _replace_empty_classic(self, known: ClassicGroup, journal: Journal) -> ConsumerGroup:
        group = self.make_consumer(known.group_id)
        if known.generation_id > 0:  # a group that never had a generation has no record
            journal.note(group_tombstone(known.group_id), lambda: self.put_back(known))
        else:
            journal.then_undo(lambda: self.put_back(known))
        return group

    # --- share -----------------------------------------------------------------------------------------------------

    def make_share(self, group_id: str, *, is_new: bool = False) -> ShareGroup:
        """A share group in place of what the id has, whose offsets stay. `is_new`: not loaded."""
        known = self._groups.get(group_id)
        group = ShareGroup(group_id, None if known is None else known.offsets, is_new=is_new)
        self._groups[group_id] = group
        return group

    def share(self, group_id: str, kind: str = "Group") -> ShareGroup:
        """Raises: KafkaError (GROUP_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE while the group is being removed)."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if group.is_dead:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return group

    def share_or_new(self, group_id: str, journal: Journal) -> ShareGroup:
        """The share group of the id, a new one if there is none.

        Raises: KafkaError (GROUP_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE, GROUP_MAX_SIZE_REACHED).
        """
        if group_id in self._groups:
            return self.share(group_id)
        if self.is_full:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        group = self.make_share(group_id, is_new=True)
        journal.then_undo(lambda: self.forget(group))
        return group

    # --- undoing ---------------------------------------------------------------------------------------------------

    def put_back(self, group: AnyGroup) -> None:
        """The group that the id had before is its group again."""
        self._groups[group.group_id] = group

    def forget(self, group: AnyGroup) -> None:
        """Remove the group from memory if nothing of it is left, and the id has no other."""
        if self._groups.get(group.group_id) is group and group.is_forgettable:
            del self._groups[group.group_id]


def remove_entries(group: ConsumerGroup, journal: Journal) -> None:
    """Remove all of a consumer group, in the order in which its records may be read."""
    for key in group.stored_keys():
        journal.put(group, key, None)
