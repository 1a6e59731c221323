"""The partitions that share groups read on this broker, and the sessions of their members.

A partition of a group is loaded when a member first reads it here, and dropped when the partition has another leader, is
deleted, or when the group has no session on this broker any more: another one may change what is stored then, as
AlterShareGroupOffsets does.

Rules: all on the event loop. `begin` is for a member that reads; what only acknowledges finds what is there.
Invariant: there is one `GroupPartition` of a group and a partition, which stays until it is closed and has stored its changes.
Source: Kafka SharePartitionManager, SharePartitionCache (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from replication.sharing.group_partition import GroupPartition
from replication.sharing.sessions import ShareSession, ShareSessions

if TYPE_CHECKING:
    from protocol.topic_partition import TopicPartition
    from replication.partition import Partition
    from replication.sharing.dependencies import SharingDependencies

_Key = tuple[bytes, int]
"""Topic id and partition."""


class LedSharePartitions:
    """Owned by the broker. Implements `replication.partitions.LeadershipListener`."""

    def __init__(self, dependencies: SharingDependencies, sessions_max: int) -> None:
        self.sessions = ShareSessions(sessions_max)
        self._dependencies = dependencies
        self._groups: dict[str, dict[_Key, GroupPartition]] = {}
        self._watched: set[str] = set()
        self._by_place: dict[TopicPartition, dict[GroupPartition, None]] = {}
        self._is_releasing = False

    def __iter__(self) -> Iterator[GroupPartition]:
        for partitions in self._groups.values():
            yield from partitions.values()

    # --- finding ---

    def find(self, group_id: str, topic_id: bytes, index: int) -> GroupPartition | None:
        """Return what a group has of a partition here, None if nothing."""
        return self._groups.get(group_id, {}).get((topic_id, index))

    def begin(self, group_id: str, partition: Partition) -> GroupPartition:
        """Return what a group has of a partition that this broker leads; it begins to load if it is new."""
        key = (partition.topic_id, partition.partition)
        known = self._groups.get(group_id, {}).get(key)
        if known is not None:
            if known.partition is partition and known.leader_epoch == partition.assignment.leader_epoch:
                return known
            known.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        begun = GroupPartition(group_id, partition, self._dependencies, self)
        self._groups.setdefault(group_id, {})[key] = begun
        self._by_place.setdefault((partition.topic, partition.partition), {})[begun] = None
        self._dependencies.tasks.spawn(begun.load(), name=f"load share partition of {group_id}")
        return begun

    def forget(self, closed: GroupPartition) -> None:
        """Implements `Registry`."""
        key, place = (closed.topic_id, closed.index), (closed.partition.topic, closed.index)
        partitions = self._groups.get(closed.group_id, {})
        if partitions.get(key) is closed:
            del partitions[key]
            if not partitions:
                del self._groups[closed.group_id]
        at_place = self._by_place.get(place, {})
        at_place.pop(closed, None)
        if not at_place:
            self._by_place.pop(place, None)

    # --- leadership ---

    def on_leader(self, partition: Partition) -> None:
        """A new term: what was loaded in the one before may not be what is stored."""
        self._close_all((partition.topic, partition.partition))

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None:
        self._close_all((topic, partition))

    def _close_all(self, place: TopicPartition) -> None:
        for each in list(self._by_place.get(place, {})):
            each.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- sessions ---

    def of_session(self, session: ShareSession) -> list[GroupPartition]:
        """Return the partitions of a session, which has ended, in which its member may hold records."""
        read = [self.find(session.group_id, *key) for key in session.partitions]
        return [shared for shared in read if shared is not None]

    def watch(self, connection_id: str) -> bool:
        """Note that a connection has sessions. Returns whether it is the first time: its end must be reported."""
        is_new = connection_id not in self._watched
        self._watched.add(connection_id)
        return is_new

    def on_disconnected(self, connection_id: str) -> None:
        """The client of sessions is gone: others may have what their members held."""
        self._watched.discard(connection_id)
        self.release(*self.sessions.disconnect(connection_id))

    def release(self, *ended: ShareSession) -> None:
        """Release what the members of sessions hold, which have ended; nobody waits for that."""
        self._is_releasing = True  # nothing is dropped before all is released
        for session in ended:
            for shared in self.of_session(session):
                shared.release(session.member_id, _ignore)
        self._is_releasing = False
        for session in ended:
            self.drop_unread(session.group_id)

    def drop_unread(self, group_id: str) -> None:
        """Drop what a group has here and is stored, if no member reads it."""
        if self.sessions.has_any(group_id):
            return
        for shared in list(self._groups.get(group_id, {}).values()):
            if not shared.is_storing:
                shared.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_all_stored(self, shared: GroupPartition) -> None:
        """Implements `Registry`."""
        if not self._is_releasing:
            self.drop_unread(shared.group_id)


def _ignore(_error: ErrorCode) -> None:
    """Nobody waits: what could not be released comes free when its lock runs out."""
