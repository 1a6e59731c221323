"""Incremental fetch sessions: a client names its partitions once, then only what changed. Pure.

Rules: no IO, no clock. `resolve` turns a request into the partitions to read; `include` decides which of the answers the
client must see. Ids are random and positive; 0 means "no session", epoch 0 asks for a new one, epoch -1 for none.
Invariants: at most `slots_max` sessions; a session's epoch moves by one with each request; a partition whose answer was
an error is answered again until it succeeds.
Source: KIP-227, KIP-516, Kafka FetchSession.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
INT32_MAX = 2**31 - 1

# Precedent: Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
EVICTION_AGE_MS = 120_000


class SessionIds(Protocol):
    """The part of the randomness door that ids need."""

    def randrange(self, start: int, stop: int) -> int: ...


class FetchItem:
    """One partition that a client reads, and what it was last told of it. `topic` is "" when the client names an id."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "known_topic",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.known_topic = topic  # of a topic id, once it was found

    @property
    def key(self) -> tuple[str | bytes, int]:
        return (self.topic or self.topic_id, self.partition)


@dataclass(slots=True)
class FetchSession:
    """Owner: the cache. `items` is in reading order: a partition that gave records goes to the end."""

    session_id: int
    uses_topic_ids: bool
    is_follower: bool
    created_ms: int
    last_used_ms: int
    epoch: int
    items: dict[tuple[str | bytes, int], FetchItem]


@dataclass(slots=True)
class ResolvedFetch:
    """What a request asks for. `session` is None for a fetch without one; `error` is a session error, else NONE."""

    items: list[FetchItem]
    session: FetchSession | None = None
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.NONE
    expected_epoch: int = 0

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, slots_max: int, randomness: SessionIds) -> None:
        self._slots_max = slots_max
        self._randomness = randomness
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.evictions_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def cached_partitions_count(self) -> int:
        return sum(len(session.items) for session in self._sessions.values())

    def resolve(self, request: FetchRequest, version: int, now_ms: int) -> ResolvedFetch:
        """Find or make the session that `request` belongs to."""
        uses_topic_ids = version >= 13
        if version < 7 or request.session_epoch == FINAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return ResolvedFetch(_items(request, uses_topic_ids))
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            items = _items(request, uses_topic_ids)
            is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
            session = self._create(items, uses_topic_ids, is_follower, now_ms)
            return ResolvedFetch(items, session, expected_epoch=INITIAL_EPOCH + 1)
        found = self._sessions.get(request.session_id)
        if found is None:
            return ResolvedFetch([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            return ResolvedFetch([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != uses_topic_ids:
            return ResolvedFetch([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._continue(found, request, now_ms)

    def include(self, resolved: ResolvedFetch, item: FetchItem, answer: PartitionData, records_bytes: int) -> bool:
        """Whether the client must see `answer`; also notes that it did. Call once an item, in order."""
        session = resolved.session
        if session is None:
            return True
        is_news = (
            records_bytes > 0
            or item.sent_high_watermark != answer.high_watermark
            or item.sent_log_start_offset != answer.log_start_offset
            or answer.preferred_read_replica >= 0
            or answer.error_code != 0
            or answer.diverging_epoch.epoch >= 0
        )
        item.sent_high_watermark = answer.high_watermark if answer.error_code == 0 else -1
        item.sent_log_start_offset = answer.log_start_offset
        if records_bytes > 0 and session.items.pop(item.key, None) is not None:
            session.items[item.key] = item  # the next fetch begins with those that had to wait
        return is_news or not resolved.is_incremental

    def is_current(self, resolved: ResolvedFetch) -> bool:
        """False when the session moved on while this fetch was parked."""
        return resolved.session is None or resolved.session.epoch == resolved.expected_epoch

    def _continue(self, session: FetchSession, request: FetchRequest, now_ms: int) -> ResolvedFetch:
        for item in _items(request, session.uses_topic_ids):
            known = session.items.get(item.key)
            if known is None:
                session.items[item.key] = item
            else:
                known.fetch_offset = item.fetch_offset
                known.max_bytes = item.max_bytes
                known.current_leader_epoch = item.current_leader_epoch
                known.last_fetched_epoch = item.last_fetched_epoch
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.items.pop((topic.topic_id if session.uses_topic_ids else topic.topic, partition), None)
        if not session.items:
            del self._sessions[session.session_id]
            return ResolvedFetch([])
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return ResolvedFetch(list(session.items.values()), session, is_incremental=True, expected_epoch=session.epoch)

    def _create(
        self, items: list[FetchItem], uses_topic_ids: bool, is_follower: bool, now_ms: int
    ) -> FetchSession | None:
        if len(self._sessions) >= self._slots_max and not self._evict(len(items), is_follower, now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._randomness.randrange(1, INT32_MAX)
        session = FetchSession(
            session_id,
            uses_topic_ids,
            is_follower,
            now_ms,
            now_ms,
            INITIAL_EPOCH + 1,
            {item.key: item for item in items},
        )
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, is_follower: bool, now_ms: int) -> bool:
        """Make room: the least recently used session if it is stale, else a lesser one that has lived long enough."""
        if not self._sessions:
            return False
        stalest = next(iter(self._sessions.values()))
        if now_ms - stalest.last_used_ms > EVICTION_AGE_MS:
            victim: FetchSession | None = stalest
        else:
            lesser = (
                session
                for session in self._sessions.values()
                if not session.is_follower
                and (is_follower or (now_ms - session.created_ms > EVICTION_AGE_MS and len(session.items) < size))
            )
            victim = min(lesser, key=lambda session: (len(session.items), session.session_id), default=None)
        if victim is None:
            return False
        del self._sessions[victim.session_id]
        self.evictions_count += 1
        return True


def _items(request: FetchRequest, uses_topic_ids: bool) -> list[FetchItem]:
    """The partitions in the order asked for; one named twice counts once, as last asked."""
    items: dict[tuple[str | bytes, int], FetchItem] = {}
    for topic in request.topics:
        name, topic_id = ("", topic.topic_id) if uses_topic_ids else (topic.topic, ZERO_UUID)
        for asked in topic.partitions:
            item = FetchItem(name, topic_id, asked)
            items[item.key] = item
    return list(items.values())
