"""Share sessions: a member names the partitions that it reads once, then only what changes. Pure.

    fetch with epoch 0    opens a session, instead of one that the member has
    1, 2, ...             the next of the session; each request moves the epoch, also an acknowledgement of its own
    -1                    closes it; what the member has acquired is released

Rules: a session belongs to one member of one group, and ends with the connection that has used it last. The caller releases
what the member has acquired of the partitions of a session that has ended. `include` decides which results an answer has: those
with records, errors, news (named first by this request), or that had an error last time.
Invariants: at most `limit` sessions, and so many partitions as the limits here say; a session is in the table of exactly one
connection.
Source: KIP-932; Kafka SharePartitionManager.newContext, ShareSession, ShareSessionContext, PartitionRotateStrategy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from protocol.errors import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
INT32_MAX: Final = 2**31 - 1
# Each fetch of a session looks at all of its partitions: several times as many as a broker leads, so that only who makes up
# partitions meets the limit. The other limit is of memory.
SESSION_PARTITIONS_MAX: Final = 50_000
PARTITIONS_MAX: Final = 1_000_000


class PartitionKey(NamedTuple):
    """A partition as a session names it."""

    topic_id: bytes
    partition: int


class ShareSession:
    """The partitions of one member, in reading order."""

    __slots__ = ("connection", "epoch", "group_id", "member_id", "partitions")

    def __init__(self, group_id: str, member_id: str, connection: Hashable, partitions: Iterable[PartitionKey]) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        # Whether the next answer must have the partition, though there is nothing in it.
        self.partitions = dict.fromkeys(partitions, False)


@dataclass(slots=True)
class ResolvedShareSession:
    """A fetch with its session: `partitions` are those to read, in this order. `session` is None for a fetch that closes it,
    which reads nothing."""

    session: ShareSession | None
    epoch: int
    partitions: list[PartitionKey]

    @property
    def is_current(self) -> bool:
        """Whether the session has had no other request since. If it has, the answer is INVALID_SHARE_SESSION_EPOCH."""
        return self.session is None or self.epoch == INITIAL_EPOCH or self.session.epoch == next_epoch(self.epoch)

    def include(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the answer has this partition, and note that the member gets it. Call it once a partition."""
        session = self.session
        if session is None or self.epoch == INITIAL_EPOCH or key not in session.partitions:
            return True
        partitions = session.partitions
        is_due = has_records or has_error or partitions[key]
        if has_records:
            del partitions[key]  # those without records are read first
            partitions[key] = has_error
        elif is_due:
            partitions[key] = has_error
        return is_due


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's request after one with `epoch`."""
    if epoch < INITIAL_EPOCH:
        return FINAL_EPOCH
    return INITIAL_EPOCH + 1 if epoch == INT32_MAX else epoch + 1


def rotated(partitions: Sequence[PartitionKey], epoch: int) -> list[PartitionKey]:
    """Return the partitions in the order in which the request with `epoch` reads them: each is the first from time to time."""
    begin = epoch % len(partitions) if partitions and epoch > INITIAL_EPOCH else 0
    return [*partitions[begin:], *partitions[:begin]]


class ShareSessions:
    """All share sessions of a broker."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[Hashable, dict[tuple[str, str], None]] = {}
        self._by_group: Counter[str] = Counter()
        self.partitions_count = 0
        """Of all sessions."""
        self.evictions_count = 0
        """Sessions that ended with their connection."""

    def __len__(self) -> int:
        return len(self._sessions)

    def has_any(self, group_id: str) -> bool:
        """Whether a member of this group has a session here."""
        return group_id in self._by_group

    def resolve(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        topics: Iterable[PartitionKey],
        forgotten: Iterable[PartitionKey],
        connection: Hashable,
        *,
        has_acknowledgements: bool = False,
    ) -> ResolvedShareSession:
        """Find or open the session of a fetch that names `topics` to read and `forgotten` ones not to read any more. A fetch
        with the final epoch does not close the session yet: the caller carries out its acknowledgements, then calls `close`.

        Raises: KafkaError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED; INVALID_REQUEST
        for acknowledgements in the first request.
        """
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            session = self._open(group_id, member_id, topics, connection)
            return ResolvedShareSession(session, epoch, list(session.partitions))
        session = self._found(group_id, member_id)
        if epoch == FINAL_EPOCH:
            return ResolvedShareSession(None, epoch, [])
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        added = [key for key in topics if key not in session.partitions]
        self._check_room(len(added), len(session.partitions))
        self._advance(session, connection)
        self.partitions_count -= len(session.partitions)
        session.partitions.update(dict.fromkeys(added, True))
        for key in forgotten:
            session.partitions.pop(key, None)
        self.partitions_count += len(session.partitions)
        return ResolvedShareSession(session, epoch, rotated(list(session.partitions), epoch))

    def acknowledge(self, group_id: str, member_id: str, epoch: int, connection: Hashable) -> None:
        """Apply a request that only acknowledges. With the final epoch the caller then calls `close`.

        Raises: KafkaError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._found(group_id, member_id)
        if epoch == FINAL_EPOCH:
            return
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self._advance(session, connection)

    def close(self, group_id: str, member_id: str) -> ShareSession:
        """End a session; returns it. Raises: KafkaError SHARE_SESSION_NOT_FOUND."""
        session = self._found(group_id, member_id)
        self._remove(session)
        return session

    def disconnect(self, connection: Hashable) -> list[ShareSession]:
        """End the sessions of a connection that is gone; returns them."""
        ended = [self._sessions[key] for key in self._by_connection.get(connection, ())]
        for session in ended:
            self._remove(session)
        self.evictions_count += len(ended)
        return ended

    def clear(self) -> list[ShareSession]:
        """End all sessions, as when share groups are switched off; returns them."""
        ended = list(self._sessions.values())
        self._sessions.clear()
        self._by_connection.clear()
        self._by_group.clear()
        self.partitions_count = 0
        return ended

    def _open(
        self, group_id: str, member_id: str, topics: Iterable[PartitionKey], connection: Hashable
    ) -> ShareSession:
        before = self._sessions.get((group_id, member_id))
        if before is not None:
            self._remove(before)
        if len(self._sessions) >= self._limit:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, connection, topics)
        self._check_room(len(session.partitions), 0)
        self.partitions_count += len(session.partitions)
        self._sessions[group_id, member_id] = session
        self._by_group[group_id] += 1
        self._by_connection.setdefault(connection, {})[group_id, member_id] = None
        return session

    def _found(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def _check_room(self, added: int, kept: int) -> None:
        if added and (added + kept > SESSION_PARTITIONS_MAX or added + self.partitions_count > PARTITIONS_MAX):
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def _advance(self, session: ShareSession, connection: Hashable) -> None:
        session.epoch = next_epoch(session.epoch)
        if session.connection != connection:  # the member has connected again, and the other end was not noticed yet
            self._unbind(session)
            session.connection = connection
            self._by_connection.setdefault(connection, {})[session.group_id, session.member_id] = None

    def _remove(self, session: ShareSession) -> None:
        del self._sessions[session.group_id, session.member_id]
        self.partitions_count -= len(session.partitions)
        self._by_group[session.group_id] -= 1
        if not self._by_group[session.group_id]:
            del self._by_group[session.group_id]
        self._unbind(session)

    def _unbind(self, session: ShareSession) -> None:
        of_connection = self._by_connection[session.connection]
        del of_connection[session.group_id, session.member_id]
        if not of_connection:
            del self._by_connection[session.connection]
