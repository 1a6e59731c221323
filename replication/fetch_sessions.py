"""Incremental fetch sessions: a client names its partitions once, then only what changed. Pure.

Here, too, only what changed is looked at. Between two fetches each partition of a session is either

    touched   the client has named it, or the partition has changed: the next fetch looks at it
    watching  the session has told all there is, and stands in the partition's list of watchers

    touched --`take`--> under way --`settle`: nothing more to tell--> watching --`touch`, or named--> touched
                                  --`settle`: there is more, or an error-----------------------------> touched

so that a fetch costs what its news cost, however many partitions it is over. A fetch without a session is one of a
session that is kept for it alone.

Rules: no IO, no clock. `resolve` turns a request into the partitions to look at; `include` decides which of the answers
the client must see. Ids are random and positive; 0 means "no session", epoch 0 asks for a new one, epoch -1 for none.
Invariants: at most `slots_max` sessions; a session's epoch moves by one with each request; a partition whose answer was
an error is answered again until it succeeds; a partition that is not touched has nothing to tell. A session that is
dropped stands in no list.
Source: KIP-227, KIP-516, Kafka FetchSession.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias

from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
    from replication.replica_progress import ReplicaProgress
    from replication.waiters import FetchWaiter, Watcher

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_VERSION = 13
INT32_MAX = 2**31 - 1

# Precedent: Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
EVICTION_AGE_MS = 120_000

SessionPartition: TypeAlias = tuple[str | bytes, int]
"""Topic name or topic id, partition index."""
FetchParameters = tuple[int | str, ...]
"""All of a request, besides its partitions, that decides what they answer."""

_place = attrgetter("place")


class SessionIds(Protocol):
    """The part of the randomness door that ids need."""

    def randrange(self, start: int, stop: int) -> int: ...


class FetchItem:
    """One partition that a client reads, and what it was last told of it. `topic` is "" when the client names an id.
    Fits `waiters.Watcher`."""

    __slots__ = (
        "_watchers",
        "current_leader_epoch",
        "fetch_offset",
        "known_topic",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "place",
        "replica",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, session: FetchSession, place: int, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.session = session
        self.place = place  # in reading order
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.known_topic = topic  # of a topic id, once it was found
        # A follower that holds everything: its session's fetches speak for it.
        self.replica: ReplicaProgress | None = None
        self._watchers: dict[Watcher, None] | None = None
        self.ask(asked)

    def __repr__(self) -> str:
        return f"<FetchItem {self.known_topic or self.topic_id.hex()}-{self.partition} at {self.fetch_offset}>"

    def ask(self, asked: FetchPartition) -> None:
        """The client names it, for the first time or again."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset  # a follower's own

    @property
    def key(self) -> SessionPartition:
        return (self.topic or self.topic_id, self.partition)

    # --- watching ---

    @property
    def is_parked(self) -> bool:
        return self.session.parked is not None

    def touch(self) -> FetchWaiter | None:
        session = self.session
        session.touched[self] = None
        return session.parked

    def watch(self, watchers: dict[Watcher, None]) -> None:
        """Be touched by what happens to the partition from now on."""
        if self._watchers is not watchers:
            self.unwatch()
            self._watchers = watchers
        watchers[self] = None

    def unwatch(self) -> None:
        if self._watchers is not None:
            self._watchers.pop(self, None)
            self._watchers = None

    @property
    def is_idle(self) -> bool:
        return self.replica is not None and self.replica.is_idle_on(self.session)

    def wake(self) -> None:
        replica, self.replica = self.replica, None
        if replica is not None and replica.is_idle_on(self.session):
            replica.wake()


class FetchSession:
    """Owner: the cache, and the fetch that is under way. `parked` is that fetch while it waits."""

    __slots__ = (
        "_in_progress",
        "_is_busy",
        "_next_place",
        "created_ms",
        "epoch",
        "is_follower",
        "is_kept",
        "items",
        "last_used_ms",
        "parameters",
        "parked",
        "session_id",
        "touched",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, now_ms: int = 0, parameters: FetchParameters = (), *, uses_topic_ids: bool = False
    ) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = False
        self.parameters = parameters
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1
        self.is_kept = session_id != NO_SESSION
        self.items: dict[SessionPartition, FetchItem] = {}
        # To be looked at by the next fetch, or by the one that is parked.
        self.touched: dict[FetchItem, None] = {}
        self.parked: FetchWaiter | None = None
        self._in_progress: dict[FetchItem, None] = {}
        self._is_busy = True
        self._next_place = 0

    def take(self) -> list[FetchItem]:
        """What has been touched, in reading order. Each of them is to be settled."""
        touched, self.touched = self.touched, {}
        if self._in_progress:
            self._in_progress.update(touched)
        else:
            self._in_progress = touched
        taken = list(touched)
        if len(taken) > 1:
            taken.sort(key=_place)
        return taken

    def settle(self, item: FetchItem, *, has_more: bool) -> None:
        """It was answered, or had nothing to answer. Unless `has_more`, it watches its partition already."""
        del self._in_progress[item]
        if has_more:
            item.unwatch()
            self.touched[item] = None

    def end(self) -> None:
        """The fetch that was under way is over."""
        self.parked = None
        self._is_busy = False
        if not self.is_kept:
            self._close()

    def drop(self) -> None:
        """No more fetches will come."""
        self.is_kept = False
        if not self._is_busy:
            self._close()

    def _close(self) -> None:
        for item in self.items.values():
            item.unwatch()
            if item.replica is not None:
                item.wake()
        self.items.clear()  # they point back here
        self.touched.clear()
        self._in_progress.clear()

    # --- requests ---

    def next_request(self, request: FetchRequest, parameters: FetchParameters, now_ms: int) -> list[FetchItem]:
        """The next fetch has come; what it has to look at."""
        self._is_busy = True
        self.parked = None
        if self._in_progress:  # the fetch before was never answered
            self.touched.update(self._in_progress)
            self._in_progress.clear()
        if parameters != self.parameters:  # whoever it is now, he has been told nothing in his way
            self.parameters = parameters
            self.touched.update(dict.fromkeys(self.items.values()))
        self._ask(request, self.touched)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self._forget((topic.topic_id if self.uses_topic_ids else topic.topic, partition))
        for item in self.touched:
            if item.replica is not None:
                item.wake()
        self.last_used_ms = now_ms
        return self.take()

    def first_request(self, request: FetchRequest) -> list[FetchItem]:
        """The first fetch has come: everything is to be looked at."""
        self._ask(request, None)
        taken = list(self.items.values())
        if self.is_kept:
            self._in_progress = dict.fromkeys(taken)
        return taken

    def _ask(self, request: FetchRequest, touched: dict[FetchItem, None] | None) -> None:
        """The partitions that are named; one named twice counts once, as last asked."""
        items = self.items
        for topic in request.topics:
            name, topic_id = ("", topic.topic_id) if self.uses_topic_ids else (topic.topic, ZERO_UUID)
            for asked in topic.partitions:
                key: SessionPartition = (name or topic_id, asked.partition)
                item = items.get(key)
                if item is None:
                    item = items[key] = FetchItem(self, self._next_place, name, topic_id, asked)
                    self._next_place += 1
                else:
                    item.ask(asked)
                if touched is not None:
                    touched[item] = None

    def _forget(self, key: SessionPartition) -> None:
        item = self.items.pop(key, None)
        if item is not None:
            item.unwatch()
            item.wake()
            self.touched.pop(item, None)

    def to_end(self, item: FetchItem) -> None:
        """Of the reading order."""
        item.place = self._next_place
        self._next_place += 1


@dataclass(slots=True)
class ResolvedFetch:
    """What a request asks for: `items` are those to look at. `error` is a session error, else NONE."""

    session: FetchSession
    items: list[FetchItem]
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.NONE
    expected_epoch: int = INITIAL_EPOCH + 1

    @property
    def session_id(self) -> int:
        return self.session.session_id


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
        """Find or make the session that `request` belongs to. Each answer is to be given back to `end`."""
        if version < 7 or request.session_epoch == FINAL_EPOCH:
            if request.session_id != NO_SESSION:
                self._drop(request.session_id)
            return self._begin(NO_SESSION, request, version, now_ms)
        if request.session_epoch == INITIAL_EPOCH:
            self._drop(request.session_id)
            return self._create(request, version, now_ms)
        found = self._sessions.get(request.session_id)
        if found is None:
            return _nothing(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            return _nothing(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != (version >= TOPIC_IDS_VERSION):
            return _nothing(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._continue(found, request, _parameters(request, version), now_ms)

    def is_unchanged(
        self, resolved: ResolvedFetch, item: FetchItem, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether an answer without records, error or redirection tells the client nothing: `include` would say no."""
        return (
            resolved.is_incremental
            and item.sent_high_watermark == high_watermark
            and item.sent_log_start_offset == log_start_offset
        )

    def include(self, resolved: ResolvedFetch, item: FetchItem, answer: PartitionData, records_bytes: int) -> bool:
        """Whether the client must see `answer`; also notes that it did. Call once an item, in order."""
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
        if records_bytes > 0:
            resolved.session.to_end(item)  # the next fetch begins with those that had to wait
        return is_news or not resolved.is_incremental

    def is_current(self, resolved: ResolvedFetch) -> bool:
        """False when the session moved on while this fetch was parked."""
        return resolved.session.epoch == resolved.expected_epoch

    def end(self, resolved: ResolvedFetch) -> None:
        """The fetch is answered, or nobody waits for its answer any more."""
        if self.is_current(resolved):
            resolved.session.end()

    def _continue(
        self, session: FetchSession, request: FetchRequest, parameters: FetchParameters, now_ms: int
    ) -> ResolvedFetch:
        items = session.next_request(request, parameters, now_ms)
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        if not session.items:
            self._drop(session.session_id)
            session.end()
            return _nothing(ErrorCode.NONE)
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return ResolvedFetch(session, items, is_incremental=True, expected_epoch=session.epoch)

    def _begin(self, session_id: int, request: FetchRequest, version: int, now_ms: int) -> ResolvedFetch:
        """A session's first fetch."""
        parameters = () if session_id == NO_SESSION else _parameters(request, version)
        session = FetchSession(session_id, now_ms, parameters, uses_topic_ids=version >= TOPIC_IDS_VERSION)
        session.is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
        return ResolvedFetch(session, session.first_request(request))

    def _create(self, request: FetchRequest, version: int, now_ms: int) -> ResolvedFetch:
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._randomness.randrange(1, INT32_MAX)
        resolved = self._begin(session_id, request, version, now_ms)
        session = resolved.session
        is_full = len(self._sessions) >= self._slots_max
        if is_full and not self._evict(len(session.items), session.is_follower, now_ms):
            session.session_id = NO_SESSION
            session.drop()
        else:
            self._sessions[session_id] = session
        return resolved

    def _drop(self, session_id: int) -> None:
        dropped = self._sessions.pop(session_id, None)
        if dropped is not None:
            dropped.drop()

    def _evict(self, size: int, is_follower: bool, now_ms: int) -> bool:
        """Make room: the least recently used session if it is stale, else one that matters less than one of this kind and
        size. Followers' matter more than consumers', larger ones more than smaller; a follower's is spared by consumers
        for ever and by followers while it is young, a consumer's by consumers while it is young."""
        if not self._sessions:
            return False
        stalest = next(iter(self._sessions.values()))
        if now_ms - stalest.last_used_ms > EVICTION_AGE_MS:
            victim: FetchSession | None = stalest
        else:
            lesser = (
                session
                for session in self._sessions.values()
                if (session.is_follower, len(session.items)) < (is_follower, size)
                and (now_ms - session.created_ms > EVICTION_AGE_MS or (is_follower and not session.is_follower))
            )
            victim = min(
                lesser,
                key=lambda session: (session.is_follower, len(session.items), session.session_id),
                default=None,
            )
        if victim is None:
            return False
        self._drop(victim.session_id)
        self.evictions_count += 1
        return True


def _nothing(error: ErrorCode) -> ResolvedFetch:
    """A fetch of nothing: its session is over, or was never one."""
    return ResolvedFetch(FetchSession(NO_SESSION), [], error=error)


def _parameters(request: FetchRequest, version: int) -> FetchParameters:
    replica = request.replica_state
    return (
        version,
        request.isolation_level,
        request.replica_id,
        replica.replica_id,
        replica.replica_epoch,
        request.rack_id,
        request.max_bytes < 0,
    )
