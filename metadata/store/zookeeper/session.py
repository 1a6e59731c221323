"""The state machine of one ZooKeeper session, over any number of connections. Pure.

    away --on_opened--> greeting --handshake (--> proving --SASL)--> connected --on_lost--> away
    any --handshake refused, closed--> over

It gets events, and returns effects in the order of the store's decisions; the caller executes them in that order.

Rules:
- A session ends when the ensemble says so, never by our own clock: only then are its ephemeral nodes removed.
- A lost connection fails every write submitted before it with ConnectionLossError, sent or not: a later one may depend on a
  lost one. Reads are repeated, a few times. Requests that are submitted without a connection wait for the next one, at most one
  session timeout.
- After a reconnect the server gets all watches (SetWatches), and triggers those whose node changed meanwhile. It compares with
  the last transaction seen, which does not advance until every part of SetWatches has a response: otherwise a second loss of
  the connection would lose changes.
- Then a `sync` is sent: a write whose response was lost is decided by then, so that a following read is correct even from a
  server that lags.
- Requests in flight are bounded in bytes and number; others wait here in order.
Invariants: responses are in the order of requests, otherwise the connection is closed; a watch is triggered at most once, and
never after the end of the session.
Source: ZooKeeper ClientCnxn, DataTree.setWatches; programmer's guide, "consistency guarantees".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from metadata.store.port import (
    ConnectionLossError,
    RefusedError,
    SessionEvent,
    SessionExpiredError,
    StoreError,
    Watch,
    WatchKind,
)
from metadata.store.store_use import StoreUse
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.wire import OpCode, ReadBody, Reader, ReplyCode
from protocol.primitives import Buffer, DecodeError

IN_FLIGHT_BYTES_MAX: Final = 1024 * 1024
IN_FLIGHT_REQUESTS_MAX: Final = 4_096
# A read whose response ends the connection each time must not be repeated forever.
READ_ATTEMPTS_MAX: Final = 5
PING_INTERVAL_MAX_MS: Final = 10_000
_XID_MAX: Final = 0x7FFFFFFF
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Credentials:
    """The id and password with which another connection, or another process, resumes the session."""

    session_id: int
    password: bytes


NO_CREDENTIALS: Final = Credentials(0, bytes(wire.PASSWORD_BYTES))


class SaslExchange(Protocol):
    """One authentication. `answer` raises DecodeError for an invalid message."""

    def first(self) -> bytes: ...

    def answer(self, token: bytes) -> bytes | None:
        """Return what to send next, None when it is complete."""


class WatchTarget(Enum):
    """The kind of watch that a read sets. MISSING: on the node's data, or on its creation if it is missing."""

    DATA = "data"
    MISSING = "missing"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class ZooKeeperRequest:
    """A request. `path` is the node in errors, `server_path` its path on the server. With `is_missing_none` a missing node
    is no error: the result is None."""

    code: OpCode
    body: bytes
    path: str
    read: ReadBody
    is_repeatable: bool
    is_missing_none: bool = False
    watch: Watch | None = None
    watch_target: WatchTarget | None = None
    server_path: str = ""

    @property
    def size_bytes(self) -> int:
        return len(self.body) + 8


Outcome = object  # a result or a StoreError
OnOutcome = Callable[[Outcome], None]


@dataclass(slots=True)
class _Call:
    request: ZooKeeperRequest
    on_outcome: OnOutcome
    waits_since_ms: int
    xid: int = 0
    sent_ms: int = 0
    attempts: int = 0


# --- effects ---


@dataclass(frozen=True, slots=True)
class Send:
    data: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """Abort the connection; the session treats it as lost already."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    on_outcome: OnOutcome
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Fire:
    """Watches to call, with the server's path of the node."""

    watches: list[Watch]
    kind: WatchKind
    server_path: str


@dataclass(frozen=True, slots=True)
class Tell:
    event: SessionEvent


Effect = Send | Drop | Answer | Fire | Tell


class _Phase(Enum):
    AWAY = "away"
    GREETING = "greeting"
    PROVING = "proving"  # SASL authentication
    CONNECTED = "connected"
    OVER = "over"


@dataclass(slots=True)
class WatchTable:
    """The one-shot watches of a session, by kind and path. A watch that is set twice is kept once."""

    data: dict[str, dict[Watch, None]] = field(default_factory=dict)
    missing: dict[str, dict[Watch, None]] = field(default_factory=dict)
    children: dict[str, dict[Watch, None]] = field(default_factory=dict)

    def leave(self, target: WatchTarget, path: str, watch: Watch, *, is_there: bool) -> None:
        table = self.children if target is WatchTarget.CHILDREN else self.data if is_there else self.missing
        table.setdefault(path, {})[watch] = None

    def take(self, kind: WatchKind, path: str) -> list[Watch]:
        if kind is WatchKind.CHILDREN:
            return list(self.children.pop(path, ()))
        taken = [*self.data.pop(path, ()), *self.missing.pop(path, ())]
        if kind is WatchKind.DELETED:
            taken += self.children.pop(path, ())
        return list(taken)

    def clear(self) -> None:
        self.data.clear()
        self.missing.clear()
        self.children.clear()


class ClientSession:
    """The session. Life: `on_opened` and `on_lost` for each connection with `on_frame` between them, `on_tick` regularly, and
    `submit` at any time, until `is_over`."""

    def __init__(
        self,
        timeout_ms: int,
        credentials: Credentials | None = None,
        *,
        authentications: Iterable[tuple[str, bytes]] = (),
        login: Callable[[], SaslExchange] | None = None,
        in_flight_requests_max: int = IN_FLIGHT_REQUESTS_MAX,
        use: StoreUse | None = None,
    ) -> None:
        """`timeout_ms` is the requested timeout; after the handshake it is the negotiated one. With `credentials` an earlier
        session is resumed. `authentications` (scheme, credentials) are repeated
        on each connection, `login` makes the authentication on each."""
        self.timeout_ms = timeout_ms
        self.credentials = credentials or NO_CREDENTIALS
        self._wanted_timeout_ms = timeout_ms
        self._use = use or StoreUse()
        self.watches = WatchTable()
        self.last_zxid = 0
        self._authentications = tuple(authentications)
        self._login = login
        self._exchange: SaslExchange | None = None
        self._in_flight_requests_max = in_flight_requests_max
        self._phase = _Phase.AWAY
        self._is_ending = False
        self._is_return = False
        self._sent: deque[_Call] = deque()
        self._sent_bytes = 0
        self._waiting: deque[_Call] = deque()
        self._xid = 0
        self._watched_zxid = 0  # watches may have missed later changes
        self._watch_answers_due = 0
        self._last_heard_ms = 0
        self._last_sent_ms = 0
        self._was_silent = False
        self.has_answered = False  # on this connection; on the last one while there is none

    @property
    def is_connected(self) -> bool:
        return self._phase is _Phase.CONNECTED

    @property
    def is_over(self) -> bool:
        return self._phase is _Phase.OVER

    # --- the connection ---

    def on_opened(self, now_ms: int) -> list[Effect]:
        assert self._phase is _Phase.AWAY, "one connection at a time"
        self._phase = _Phase.GREETING
        self.has_answered = False
        self._heard(now_ms)
        self._last_sent_ms = now_ms
        return [
            Send(
                wire.connect_frame(
                    last_zxid=self.last_zxid,
                    timeout_ms=self._wanted_timeout_ms,
                    session_id=self.credentials.session_id,
                    password=self.credentials.password,
                )
            )
        ]

    def on_frame(self, frame: Buffer, now_ms: int) -> list[Effect]:
        self._heard(now_ms)
        try:
            if self._phase is _Phase.GREETING:
                return self._on_handshake(frame, now_ms)
            if self._phase is _Phase.PROVING:
                return self._on_proof(Reader(frame), now_ms)
            if self._phase is _Phase.CONNECTED:
                return self._on_reply(Reader(frame), now_ms)
        except DecodeError as error:
            return self._drop(str(error), now_ms)
        return []  # the session has ended: ignored

    def on_lost(self, now_ms: int) -> list[Effect]:
        """Handle a lost connection, or a failed attempt."""
        was_connected = self._phase is _Phase.CONNECTED
        if self._phase is not _Phase.OVER:
            self._phase = _Phase.AWAY
        if not was_connected:
            return []
        effects: list[Effect] = []
        kept: list[_Call] = []
        for call in (*self._sent, *self._waiting):
            if self._is_ending:
                continue  # every request has a response
            if call.request.is_repeatable and call.attempts < READ_ATTEMPTS_MAX:
                call.waits_since_ms = now_ms
                kept.append(call)
            else:
                effects.append(Answer(call.on_outcome, ConnectionLossError(call.request.path)))
        self._sent.clear()
        self._sent_bytes = 0
        self._waiting = deque(kept)
        self._watch_answers_due = 0
        if not self._is_ending:
            effects.append(Tell(SessionEvent.SUSPENDED))
        return effects

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Send a ping if it is due. To be called several times in a third of the session's timeout."""
        if self._phase is not _Phase.CONNECTED:
            return self._give_up_waiting(now_ms)
        if now_ms - self._last_heard_ms > self.timeout_ms * 2 // 3:
            # Two pings: after a stall of this process, responses may be unread in the socket.
            if self._was_silent:
                return self._drop(f"nothing heard for {now_ms - self._last_heard_ms} ms", now_ms)
            self._was_silent = True
        if self._sent and now_ms - self._sent[0].sent_ms > self.timeout_ms:
            return self._drop(f"a request was not answered for {now_ms - self._sent[0].sent_ms} ms", now_ms)
        if now_ms - self._last_sent_ms >= min(self.timeout_ms // 3, PING_INTERVAL_MAX_MS):
            self._last_sent_ms = now_ms
            return [Send(wire.ping_frame())]
        return []

    # --- requests ---

    def submit(self, request: ZooKeeperRequest, on_outcome: OnOutcome, now_ms: int) -> list[Effect]:
        """Submit a request; `on_outcome` is called with the outcome, once, when the effects are executed."""
        if self._phase is _Phase.OVER or self._is_ending:
            return [Answer(on_outcome, SessionExpiredError(request.path))]
        if request.size_bytes > wire.REQUEST_BYTES_MAX:
            reason = f"{request.path}: a request of {request.size_bytes} bytes is more than ZooKeeper takes"
            return [Answer(on_outcome, RefusedError(reason))]
        self._waiting.append(_Call(request, on_outcome, now_ms))
        return self._send_waiting(now_ms)

    def end(self, now_ms: int) -> list[Effect]:
        """Close the session: `is_over` when the ensemble has closed it, which may need another connection."""
        if self._is_ending or self._phase is _Phase.OVER:
            return []
        self._is_ending = True
        effects = self._fail_all()
        self.watches.clear()
        if self._phase is _Phase.CONNECTED:
            effects += self._send_end(now_ms)
        elif self.credentials.session_id == 0:
            self._phase = _Phase.OVER  # it has never begun
        return effects

    # --- inside ---

    def _heard(self, now_ms: int) -> None:
        self._last_heard_ms = now_ms
        self._was_silent = False

    def _drop(self, reason: str, now_ms: int) -> list[Effect]:
        return [Drop(reason), *self.on_lost(now_ms)]

    def _on_handshake(self, frame: Buffer, now_ms: int) -> list[Effect]:
        reply = wire.read_connect_reply(frame)
        if reply.session_id == 0 or reply.timeout_ms <= 0:
            return self._expire()
        self._is_return = self.credentials.session_id != 0
        self.credentials = Credentials(reply.session_id, reply.password)
        self.timeout_ms = reply.timeout_ms
        if self._login is None:
            return self._serve(now_ms)
        self._phase = _Phase.PROVING
        self._exchange = self._login()
        return self._prove(self._exchange.first())

    def _prove(self, token: bytes) -> list[Effect]:
        self._xid = self._xid % _XID_MAX + 1
        return [Send(wire.request_frame(self._xid, OpCode.SASL, wire.sasl_body(token)))]

    def _on_proof(self, reader: Reader, now_ms: int) -> list[Effect]:
        xid, _, error = reader.reply_header()
        assert self._exchange is not None
        if error != ReplyCode.OK or xid != self._xid:
            self._use.authentication_failures_count += 1
            return self._drop(f"authentication was refused: {error}", now_ms)
        try:
            token = self._exchange.answer(reader.opaque())
        except DecodeError:
            self._use.authentication_failures_count += 1
            raise
        if token is not None:
            return self._prove(token)
        self._use.authentications_count += 1
        return self._serve(now_ms)

    def _serve(self, now_ms: int) -> list[Effect]:
        """Handle a completed handshake: requests can be sent."""
        self._phase = _Phase.CONNECTED
        effects: list[Effect] = [Send(wire.auth_frame(scheme, secret)) for scheme, secret in self._authentications]
        if self._is_ending:
            return effects + self._send_end(now_ms)
        frames = wire.set_watches_frames(
            self._watched_zxid, self.watches.data, self.watches.missing, self.watches.children
        )
        self._watch_answers_due = len(frames)
        effects += [Send(frame) for frame in frames]
        if self._is_return:
            self._waiting.appendleft(_Call(_SYNC, _ignore, now_ms))
        effects.append(Tell(SessionEvent.CONNECTED))
        return effects + self._send_waiting(now_ms)

    def _on_reply(self, reader: Reader, now_ms: int) -> list[Effect]:
        xid, zxid, error = reader.reply_header()
        if zxid > 0:
            self.last_zxid = max(self.last_zxid, zxid)
        match xid:
            case wire.NOTIFICATION_XID:
                effects = self._on_notification(reader)
            case wire.PING_XID:
                self.has_answered = True
                effects = []
            case wire.AUTH_XID if error == ReplyCode.OK:
                effects = []
            case wire.AUTH_XID:
                self._use.authentication_failures_count += 1
                return self._drop(f"authentication was refused: {error}", now_ms)
            case wire.SET_WATCHES_XID:
                if error != ReplyCode.OK:
                    return self._drop(f"watches were refused: {error}", now_ms)
                self._watch_answers_due -= 1
                effects = []
            case _:
                effects = self._on_answer(xid, error, reader, now_ms)
        if self._watch_answers_due == 0 and self._phase is _Phase.CONNECTED:
            self._watched_zxid = self.last_zxid
        return effects

    def _on_notification(self, reader: Reader) -> list[Effect]:
        kind, path = wire.read_watch_event(reader)
        watches = self.watches.take(kind, path) if kind is not None else []
        return [Fire(watches, kind, path)] if kind is not None and watches else []

    def _on_answer(self, xid: int, error: int, reader: Reader, now_ms: int) -> list[Effect]:
        if not self._sent or self._sent[0].xid != xid:
            return self._drop(f"answer {xid} came out of order", now_ms)
        call = self._sent[0]
        if error == ReplyCode.SESSION_MOVED:
            return self._drop("another connection has taken the session up", now_ms)
        if error == ReplyCode.SESSION_EXPIRED or call.request.code is OpCode.CLOSE_SESSION:
            return self._expire()
        outcome = _outcome(call.request, error, reader)
        self._sent.popleft()
        self._sent_bytes -= call.request.size_bytes
        self._use.latencies.add((now_ms - call.sent_ms) * _NS_PER_MS)
        self.has_answered = True
        self._leave_watch(call.request, outcome, error)
        return [Answer(call.on_outcome, outcome), *self._send_waiting(now_ms)]

    def _leave_watch(self, request: ZooKeeperRequest, outcome: Outcome, error: int) -> None:
        if request.watch is None or request.watch_target is None:
            return
        is_there = error == ReplyCode.OK
        if (is_there and not isinstance(outcome, StoreError)) or (
            error == ReplyCode.NO_NODE and request.watch_target is WatchTarget.MISSING
        ):
            self.watches.leave(request.watch_target, request.server_path, request.watch, is_there=is_there)

    def _send_waiting(self, now_ms: int) -> list[Effect]:
        if self._phase is not _Phase.CONNECTED:
            return []
        frames: list[bytes] = []
        while (
            self._waiting and len(self._sent) < self._in_flight_requests_max and self._sent_bytes < IN_FLIGHT_BYTES_MAX
        ):
            call = self._waiting.popleft()
            self._xid = self._xid % _XID_MAX + 1
            call.xid = self._xid
            call.sent_ms = now_ms
            call.attempts += 1
            self._sent.append(call)
            self._sent_bytes += call.request.size_bytes
            frames.append(wire.request_frame(call.xid, call.request.code, call.request.body))
        if not frames:
            return []
        self._last_sent_ms = now_ms
        return [Send(b"".join(frames))]

    def _send_end(self, now_ms: int) -> list[Effect]:
        self._waiting.append(_Call(_CLOSE, _ignore, now_ms))
        return self._send_waiting(now_ms)

    def _give_up_waiting(self, now_ms: int) -> list[Effect]:
        """Fail requests that have waited for a connection longer than one session timeout."""
        effects: list[Effect] = []
        while self._waiting and now_ms - self._waiting[0].waits_since_ms >= self.timeout_ms:
            call = self._waiting.popleft()
            effects.append(Answer(call.on_outcome, ConnectionLossError(call.request.path)))
        return effects

    def _expire(self) -> list[Effect]:
        """Handle the end of the session by the ensemble, or an unknown session."""
        self._phase = _Phase.OVER
        self.watches.clear()
        return [*self._fail_all(), Tell(SessionEvent.EXPIRED)]

    def _fail_all(self) -> list[Effect]:
        calls = (*self._sent, *self._waiting)
        effects: list[Effect] = [Answer(call.on_outcome, SessionExpiredError(call.request.path)) for call in calls]
        self._waiting.clear()
        if self._phase is _Phase.OVER:
            self._sent.clear()
            self._sent_bytes = 0
        for call in self._sent:  # their responses still come, and must be matched
            call.on_outcome = _ignore
        return effects


def _outcome(request: ZooKeeperRequest, error: int, reader: Reader) -> Outcome:
    if error == ReplyCode.NO_NODE and request.is_missing_none:
        return None
    if error != ReplyCode.OK:
        return wire.refusal(error, request.path)
    try:
        return request.read(reader)
    except StoreError as refused:
        return refused


def _ignore(_outcome: Outcome) -> None:
    """Ignore a response without a caller."""


def _nothing(_reader: Reader) -> None:
    """Ignore the body of a response."""


_SYNC: Final = ZooKeeperRequest(OpCode.SYNC, wire.path_body("/"), "/", _nothing, is_repeatable=False)
_CLOSE: Final = ZooKeeperRequest(OpCode.CLOSE_SESSION, b"", "/", _nothing, is_repeatable=False)
