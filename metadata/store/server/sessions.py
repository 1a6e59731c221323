"""The connections of a server, the sessions that they hold, and when these are over.

Rules:
- A session is opened, and closed, by a transaction. Until that is committed the client waits for its greeting.
- A session belongs to one connection. Who knows its password takes it up: the connection before is closed, and the greeting
  waits until every write that was under way is decided, so that the client can read what became of its own.
- A session of which nothing is heard for its timeout is closed at the next tick, with or without a connection. Those that the
  file has at the start get their whole timeout from then on.
- If the disk cannot take the end of a session, it is tried again at each tick.
Source: ZooKeeper ZooKeeperServer.processConnectRequest, SessionTrackerImpl, NIOServerCnxnFactory.
"""

from __future__ import annotations

import hmac
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from metadata.store.committed_tree import CommittedTree, OnDone, Written
from metadata.store.node_tree import StoredSession
from metadata.store.port import StoreError
from metadata.store.server.client import Client
from metadata.store.server.expiry import Expiry
from metadata.store.zookeeper.client import session_text
from metadata.store.zookeeper.wire import PASSWORD_BYTES
from runtime.clock import Clock
from runtime.randomness import Randomness

DEFAULT_TICK_MS: Final = 2_000
DEFAULT_CONNECTIONS_MAX: Final = 60
GREETING_TIMEOUT_MS: Final = 10_000
"""A connection that has no session within this time is closed."""
TICKS_MIN, TICKS_MAX = 2, 20
"""The bounds of a session's timeout, unless they are given."""
_SERVER_BITS: Final = 1 << 56
_TIME_MASK: Final = (1 << 40) - 1
_COUNTER_BITS: Final = 16

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """`connections_max` is for each address of clients, 0 for no limit. Without bounds a timeout has 2 to 20 ticks."""

    tick_ms: int = DEFAULT_TICK_MS
    timeout_min_ms: int | None = None
    timeout_max_ms: int | None = None
    connections_max: int = DEFAULT_CONNECTIONS_MAX

    def negotiated(self, timeout_ms: int) -> int:
        least = self.tick_ms * TICKS_MIN if self.timeout_min_ms is None else self.timeout_min_ms
        most = self.tick_ms * TICKS_MAX if self.timeout_max_ms is None else self.timeout_max_ms
        return min(max(timeout_ms, least), most)


OnGreeted = Callable[[StoredSession | None], None]


class Sessions:
    """Of one server. Iteration is over the connections."""

    def __init__(self, tree: CommittedTree, clock: Clock, randomness: Randomness, limits: SessionLimits) -> None:
        self.limits = limits
        self._tree = tree
        self._clock = clock
        self._randomness = randomness
        self._expiry = Expiry(limits.tick_ms, clock.monotonic_ms())
        self._connected: dict[Client, None] = {}
        self._counts: Counter[str] = Counter()  # of connections, by address
        self._holders: dict[int, Client] = {}  # by session
        self._next_id = _SERVER_BITS | (clock.wall_ms() & _TIME_MASK) << _COUNTER_BITS
        for session in tree.sessions.values():
            self._expiry.touch(session.session_id, session.timeout_ms, clock.monotonic_ms())

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._connected))

    def __len__(self) -> int:
        return len(self._connected)

    # --- connections ---

    def admit(self, client: Client) -> bool:
        """Return whether its address may have one more connection."""
        host, most = client.address.host, self.limits.connections_max
        if most and self._counts[host] >= most:
            logger.warning("connection refused, its address has too many: address=%s connections=%d", host, most)
            return False
        self._connected[client] = None
        self._counts[host] += 1
        return True

    def leave(self, client: Client) -> None:
        """The connection is closed. Its session goes on, until its time is over or another connection takes it up."""
        if client not in self._connected:
            return
        del self._connected[client]
        self._counts[client.address.host] -= 1
        if not self._counts[client.address.host]:
            del self._counts[client.address.host]
        if self._holders.get(client.session_id) is client:
            del self._holders[client.session_id]

    # --- sessions ---

    def open(self, client: Client, timeout_ms: int, on_greeted: OnGreeted) -> None:
        """Open a session. `on_greeted` gets None when it could not be stored."""
        session = StoredSession(
            self._new_id(), self._randomness.randbytes(PASSWORD_BYTES), self.limits.negotiated(timeout_ms)
        )

        def opened(outcome: Written | StoreError) -> None:
            if isinstance(outcome, StoreError):
                on_greeted(None)
                return
            self._hold(client, session)
            on_greeted(session)

        self._tree.open_session(session, opened)

    def resume(self, client: Client, session_id: int, password: bytes, timeout_ms: int, on_greeted: OnGreeted) -> None:
        """Take up a session. `on_greeted` gets None when it is over, or the password is wrong. The session of an embedded store
        has none, so that nobody takes it up."""
        stored = self._tree.sessions.get(session_id)
        if stored is None or not stored.password or not hmac.compare_digest(stored.password, password):
            on_greeted(None)
            return
        before = self._holders.get(session_id)
        if before is not None:
            before.close("its session is taken up by another connection")
        session = StoredSession(session_id, password, self.limits.negotiated(timeout_ms))
        self._expiry.touch(session_id, session.timeout_ms, self._clock.monotonic_ms())

        def decided() -> None:
            if session_id not in self._tree.sessions or not self._tree.tree.is_session_open(session_id):
                on_greeted(None)
                return
            self._hold(client, session)
            on_greeted(session)

        self._tree.after_writes(decided)

    def _hold(self, client: Client, session: StoredSession) -> None:
        client.session_id, client.timeout_ms = session.session_id, session.timeout_ms
        self._expiry.touch(session.session_id, session.timeout_ms, self._clock.monotonic_ms())
        if client not in self._connected:
            return  # it was closed meanwhile
        before = self._holders.get(session.session_id)
        self._holders[session.session_id] = client
        if before is not None:
            before.close("its session is taken up by another connection")

    def touch(self, client: Client) -> None:
        """The client gives a sign of life."""
        self._expiry.touch(client.session_id, client.timeout_ms, self._clock.monotonic_ms())

    def end(self, client: Client, on_done: OnDone) -> None:
        """The client closes its session. If the disk cannot take that, the session goes on until its time is over."""
        session_id = client.session_id

        def ended(outcome: Written | StoreError) -> None:
            if isinstance(outcome, Written):
                self._expiry.forget(session_id)
            elif session_id in self._tree.sessions:
                self._expiry.touch(session_id, client.timeout_ms, self._clock.monotonic_ms())
            on_done(outcome)

        self._tree.close_session(session_id, ended)

    def tick(self) -> None:
        """Close the sessions whose time is over, and the connections that have had none for too long."""
        now_ms = self._clock.monotonic_ms()
        for client in self:
            if not client.session_id and now_ms - client.connected_ms > GREETING_TIMEOUT_MS:
                client.close(f"no session within {GREETING_TIMEOUT_MS} ms")
        for session_id in self._expiry.due(now_ms):
            stored = self._tree.sessions.get(session_id)
            if stored is not None and self._tree.tree.is_session_open(session_id):
                self._expire(stored)

    def _expire(self, session: StoredSession) -> None:
        session_id = session.session_id

        def closed(outcome: Written | StoreError) -> None:
            if isinstance(outcome, StoreError) and session_id in self._tree.sessions:
                self._expiry.touch(session_id, 0, self._clock.monotonic_ms())
                return
            logger.info("session expired: session=%s timeout_ms=%d", session_text(session_id), session.timeout_ms)
            holder = self._holders.pop(session_id, None)
            if holder is not None:
                holder.close("its session has expired")

        self._tree.close_session(session_id, closed)

    def _new_id(self) -> int:
        while self._next_id in self._tree.sessions:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1
