"""Incremental fetch sessions: a client names its partitions once, then only what changed. Pure.

Only changed partitions are inspected. Between two fetches each partition of a session is either

    touched   the client has named it, or the partition has changed: the next fetch inspects it
    watching  the client has everything, and the session is in the partition's list of watchers

    touched --`take`--> under way --`settle`: nothing more to tell--> watching --`touch`, or named--> touched
                                  --`settle`: there is more, or an error-----------------------------> touched

so that the cost of a fetch depends on the changed partitions, not on all of them. A fetch without a session gets a session of
its own, which ends with it.

Rules: no IO, no clock. `resolve` turns a request into the partitions to inspect; `include` decides which results the response
must contain. Ids are random and positive; 0 means "no session", epoch 0 asks for a new one, epoch -1 for none.
Invariants: at most `slots_max` sessions; a session's epoch moves by one with each request; a partition with an error is
included again until it succeeds; a partition that is not touched has no news. A dropped session is in no list.
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
    from replication.waiting.delayed_queues import FetchWaiter, Watcher

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
TOPIC_IDS_VERSION = 13
INT32_MAX = 2**31 - 1

# Precedent: Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
EVICTION_AGE_MS = 120_000

SessionPartition: TypeAlias = tuple[str | bytes, int]
"""Topic name or topic id, partition index."""
FetchRights = tuple[object, ...]
"""What the client is and may, as far as it can change: of all clients the same, where everybody may read everything."""
FetchParameters = tuple[object, ...]
"""Everything in a request, besides its partitions, that the results depend on."""

_place = attrgetter("place")


class SessionIds(Protocol):
    """The part of `runtime.randomness` that ids need."""

    def randrange(self, start: int, stop: int) -> int: ...


class FetchItem:
    """One partition of a session, and the values last sent for it. `topic` is "" when the client names a topic id. Fits
    `waiters.Watcher`."""

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
        self.known_topic = topic  # the name of a topic id, once it was found
        # The progress of a follower that has everything: each fetch of its session confirms that.
        self.replica: ReplicaProgress | None = None
        self._watchers: dict[Watcher, None] | None = None
        self.ask(asked)

    def __repr__(self) -> str:
        return f"<FetchItem {self.known_topic or self.topic_id.hex()}-{self.partition} at {self.fetch_offset}>"

    def ask(self, asked: FetchPartition) -> None:
        """Apply the client's request for the partition, the first or a later one."""
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
        """Register with `watchers`, which touch this item at every change from now on."""
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
    """One session. Owner: the cache, and the fetch in progress. `parked` is that fetch while it waits."""

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
        # To be inspected by the next fetch, or by the parked one.
        self.touched: dict[FetchItem, None] = {}
        self.parked: FetchWaiter | None = None
        self._in_progress: dict[FetchItem, None] = {}
        self._is_busy = True
        self._next_place = 0

    def take(self) -> list[FetchItem]:
        """Return what was touched, in reading order. The caller passes each item to `settle`."""
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
        """Note that `item` was inspected. Unless `has_more`, it watches its partition already."""
        del self._in_progress[item]
        if has_more:
            item.unwatch()
            self.touched[item] = None

    def end(self) -> None:
        """Note that the fetch in progress has ended."""
        self.parked = None
        self._is_busy = False
        if not self.is_kept:
            self._close()

    @property
    def is_at_rest(self) -> bool:
        """Whether the session is kept for a next fetch, to which it has nothing to tell by now."""
        return self.is_kept and not (self._is_busy or self.touched or self._in_progress)

    def begin_again(self) -> bool:
        """Begin another fetch, of a session at rest; False, and nothing is done, of another."""
        if self._is_busy or self.touched or self._in_progress or not self.is_kept:
            return False
        self._is_busy = True
        if self.session_id == NO_SESSION:  # its responses tell all
            self._in_progress = dict.fromkeys(self.items.values())
        return True

    def end_without_news(self) -> bool:
        """Note that the fetch that has begun again has ended, and has looked at nothing; False, and nothing is done, if there
        is something to look at."""
        if self.touched or not self.is_kept:
            return False
        self._in_progress.clear()
        self.parked = None
        self._is_busy = False
        return True

    def keep_apart(self) -> None:
        """Keep the session of a first request without one, for requests that repeat it. The caller drops it."""
        self.is_kept = True
        self._in_progress = dict.fromkeys(self.items.values())

    def drop(self) -> None:
        """Drop the session: no more fetches will come."""
        self.is_kept = False
        if not self._is_busy:
            self._close()

    def _close(self) -> None:
        for item in self.items.values():
            item.unwatch()
            if item.replica is not None:
                item.wake()
        self.items.clear()  # the items refer to this session
        self.touched.clear()
        self._in_progress.clear()

    # --- requests ---

    def next_request(self, request: FetchRequest, parameters: FetchParameters, now_ms: int) -> list[FetchItem]:
        """Apply the next request of the session; returns the items to inspect."""
        self._is_busy = True
        self.parked = None
        if self._in_progress:  # the fetch before got no response
            self.touched.update(self._in_progress)
            self._in_progress.clear()
        if parameters != self.parameters:  # nothing was sent with these parameters yet
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
        """Apply the first request of the session; returns its items, all to be inspected."""
        self._ask(request, None)
        taken = list(self.items.values())
        if self.is_kept:
            self._in_progress = dict.fromkeys(taken)
        return taken

    def _ask(self, request: FetchRequest, touched: dict[FetchItem, None] | None) -> None:
        """Apply the named partitions; one that is named twice counts once, with its last values."""
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
        """Move `item` to the end of the reading order."""
        item.place = self._next_place
        self._next_place += 1


@dataclass(slots=True)
class ResolvedFetch:
    """A request with its session: `items` are those to inspect. `error` is a session error, else NONE."""

    session: FetchSession
    items: list[FetchItem]
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.NONE
    expected_epoch: int = INITIAL_EPOCH + 1

    @property
    def session_id(self) -> int:
        return self.session.session_id


class FetchSessions:
    """Caches all sessions of a broker."""

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

    def resolve(self, request: FetchRequest, version: int, now_ms: int, rights: FetchRights = ()) -> ResolvedFetch:
        """Find or create the session of `request`. When `rights` are others than before, all of its partitions are inspected.
        The caller passes each result to `end`."""
        if version < 7 or request.session_epoch == FINAL_EPOCH:
            if request.session_id != NO_SESSION:
                self._drop(request.session_id)
            return self._begin(NO_SESSION, request, version, now_ms, rights)
        if request.session_epoch == INITIAL_EPOCH:
            self._drop(request.session_id)
            return self._create(request, version, now_ms, rights)
        found = self._sessions.get(request.session_id)
        if found is None:
            return _nothing(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            return _nothing(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != (version >= TOPIC_IDS_VERSION):
            return _nothing(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._continue(found, request, _parameters(request, version, rights), now_ms)

    def is_unchanged(
        self, resolved: ResolvedFetch, item: FetchItem, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether a result without records, error or redirection has no news for the client: `include` would return False."""
        return (
            resolved.is_incremental
            and item.sent_high_watermark == high_watermark
            and item.sent_log_start_offset == log_start_offset
        )

    def include(self, resolved: ResolvedFetch, item: FetchItem, answer: PartitionData, records_bytes: int) -> bool:
        """Return whether the response must contain `answer`, and note that the client gets it. Call it once an item, in
        order."""
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
            resolved.session.to_end(item)  # the next fetch begins with the items that had to wait
        return is_news or not resolved.is_incremental

    def is_current(self, resolved: ResolvedFetch) -> bool:
        """Whether the session has had no other fetch while this one was parked."""
        return resolved.session.epoch == resolved.expected_epoch

    def repeat(self, resolved: ResolvedFetch, epoch: int, now_ms: int) -> bool:
        """Begin another fetch with the session of `resolved`, which its client knows: the next request, with this epoch, names
        no partition. False, and nothing is done, unless the session is at rest."""
        session = resolved.session
        if session.epoch != epoch or self._sessions.get(session.session_id) is not session or not session.begin_again():
            return False
        session.last_used_ms = now_ms
        self._advance(session)
        resolved.expected_epoch = session.epoch
        resolved.is_incremental = True
        return True

    def end(self, resolved: ResolvedFetch) -> None:
        """Note that the fetch has its response, or that its client has disconnected."""
        if self.is_current(resolved):
            resolved.session.end()

    def withdraw(self, resolved: ResolvedFetch) -> None:
        """Note that the fetch has its response, from which its client learns nothing: neither of its partitions, nor of a
        session that this fetch has created."""
        session = resolved.session
        if not resolved.is_incremental and session.is_kept:
            self._drop(session.session_id)
        self.end(resolved)

    def _continue(
        self, session: FetchSession, request: FetchRequest, parameters: FetchParameters, now_ms: int
    ) -> ResolvedFetch:
        items = session.next_request(request, parameters, now_ms)
        self._advance(session)
        if not session.items:
            self._drop(session.session_id)
            session.end()
            return _nothing(ErrorCode.NONE)
        return ResolvedFetch(session, items, is_incremental=True, expected_epoch=session.epoch)

    def _advance(self, session: FetchSession) -> None:
        """Note that a request has used the session."""
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _begin(
        self, session_id: int, request: FetchRequest, version: int, now_ms: int, rights: FetchRights
    ) -> ResolvedFetch:
        """Create a session and apply its first request."""
        parameters = () if session_id == NO_SESSION else _parameters(request, version, rights)
        session = FetchSession(session_id, now_ms, parameters, uses_topic_ids=version >= TOPIC_IDS_VERSION)
        session.is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
        return ResolvedFetch(session, session.first_request(request))

    def _create(self, request: FetchRequest, version: int, now_ms: int, rights: FetchRights) -> ResolvedFetch:
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._randomness.randrange(1, INT32_MAX)
        resolved = self._begin(session_id, request, version, now_ms, rights)
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
        """Make room for a session: evict the least recently used one if it is stale, else one with lower priority. Followers'
        sessions come before consumers', larger before smaller. A follower's session is never evicted for a consumer, and not
        for a follower while it is young; a consumer's not for a consumer while it is young."""
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
    """Resolve a request without partitions, because of a session error or because the session has ended."""
    return ResolvedFetch(FetchSession(NO_SESSION), [], error=error)


def _parameters(request: FetchRequest, version: int, rights: FetchRights) -> FetchParameters:
    replica = request.replica_state
    return (
        version,
        request.isolation_level,
        request.replica_id,
        replica.replica_id,
        replica.replica_epoch,
        request.rack_id,
        request.max_bytes < 0,
        rights,
    )
