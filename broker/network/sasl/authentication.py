"""The authentication of one connection of a SASL listener: frames, time limits, delayed failures, the end of a session.

The connection passes all bytes to `received` while it authenticates. When the exchange is complete it serves requests,
first those in the bytes that came behind it. When the session ends, requests but SaslHandshake close the connection. With
SaslHandshake, which reaches its handler like any other request, the client authenticates again: until that is complete, all
bytes come here once more.

Rules: no IO. What a connection keeps of an incomplete frame is bounded by sasl.server.max.receive.size, and what all of them
keep together by a budget: a frame for which there is no room closes its connection. A failure is logged once, when the
connection is closed; its response and the close are delayed, and nothing is read meanwhile.
Invariants: a request is served only for a principal whose exchange is complete; every timer ends with the connection.
Source: Kafka KafkaChannel, Selector.DelayedAuthenticationFailureClose, SaslServerAuthenticator; KIP-306, KIP-368.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from broker.network.connections.connection_phase import WAITS_FOR_DELAYED_CLOSE
from broker.network.requests.request_checks import foreign_protocol
from broker.network.sasl.exchange import SaslFailure, SaslRules, SaslServerExchange, SaslSession
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection
    from broker.network.connections.connection_life import ConnectionLife
    from broker.network.memory_budget import MemoryBudget
    from broker.network.routes import DispatchTable
    from broker.observability.audit import AuditLog
    from runtime.clock import Clock
    from runtime.disk.filesystem import Buffer
    from runtime.network.transport import Connection
    from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

# Kafka does not let a client authenticate again sooner.
SHORTEST_REAUTHENTICATION_PERIOD_MS = 1_000
_SIZE_BYTES = 4


class AuthenticationMetrics(Protocol):
    """Counts by listener."""

    def authenticated(self, listener: str, *, knows_lifetime: bool) -> None:
        """A client has authenticated for the first time; `knows_lifetime` says whether it can do so again."""

    def authentication_failed(self, listener: str) -> None: ...

    def reauthenticated(self, listener: str, took_ms: int, now_ms: int) -> None: ...

    def reauthentication_failed(self, listener: str) -> None: ...

    def expired_connection_killed(self, listener: str) -> None:
        """A request came after the end of its session."""


@dataclass(frozen=True, slots=True)
class ListenersAuthentication:
    """What the authentications of a broker have in common. `rules` are those of each listener with SASL. `table` is
    what ApiVersions tells. `budget` is for bytes of clients that have not authenticated, of whom there are `max_pending`
    at most; `pending` are those there are."""

    rules: Mapping[str, SaslRules]
    table: DispatchTable
    clock: Clock
    timer: Timer
    audit: AuditLog
    metrics: AuthenticationMetrics
    budget: MemoryBudget
    max_pending: int
    pending: set[Authentication] = field(default_factory=set)


class Authentication:
    """Owned by a connection. `begin`, then `received`, and `close` at the end."""

    __slots__ = (
        "_authenticated",
        "_began_ms",
        "_buffer",
        "_client",
        "_common",
        "_exchange",
        "_is_over",
        "_life",
        "_rules",
        "_session",
        "_stream",
        "_timer",
    )

    def __init__(self, listener: str, common: ListenersAuthentication, life: ConnectionLife) -> None:
        self._rules = common.rules[listener]
        self._common = common
        self._life = life
        self._authenticated: Callable[[bytes], None] | None = None
        self._buffer = bytearray()
        self._timer: TimerEntry | None = None
        self._is_over = False  # failed, or the connection is closed
        self._stream: Connection | None = None
        self._client: ClientConnection | None = None
        self._exchange: SaslServerExchange | None = None
        self._session: SaslSession | None = None
        self._began_ms: int | None = None  # when it authenticated again for the last time

    def begin(self, stream: Connection, client: ClientConnection, authenticated: Callable[[bytes], None]) -> None:
        """The connection is made. `authenticated` is called whenever an exchange is complete, with the bytes behind it."""
        self._authenticated = authenticated
        self._stream = stream
        self._client = client
        common = self._common
        if len(common.pending) >= common.max_pending:
            common.metrics.authentication_failed(client.listener)
            limit = f"barnabas.authentication.max.connections={common.max_pending}"
            self._end(f"too many connections that have not authenticated: {limit}")
            return
        common.pending.add(self)
        self._exchange = self._begun(client)
        self._limit_time()

    def _begun(self, client: ClientConnection, earlier: SaslSession | None = None) -> SaslServerExchange:
        common = self._common
        return SaslServerExchange(self._rules, common.table, client, earlier)

    def close(self) -> None:
        """The connection is closed."""
        self._is_over = True
        self._common.pending.discard(self)
        self._stream = None
        self._stop_timer()
        self._release()

    # --- receiving ---

    def received(self, data: Buffer) -> None:
        """Process the next bytes of a client that authenticates."""
        if self._is_over:
            return
        budget = self._common.budget
        if not budget.has_room(len(data)):
            self._end("too many bytes of connections that have not authenticated")
            return
        budget.reserve_anyway(len(data))
        self._buffer += data
        try:
            self._process()
        except SaslFailure as failure:
            self._fail(failure)
        except Exception:
            logger.exception("authentication failed, for a reason that is not the client's")
            self._end("the authentication failed")

    def _process(self) -> None:
        """Process the complete frames. Raises SaslFailure."""
        exchange, position = self._exchange, 0
        assert exchange is not None and self._stream is not None
        buffer = self._buffer
        while exchange.session is None and len(buffer) - position >= _SIZE_BYTES:
            start = position + _SIZE_BYTES
            size = int.from_bytes(buffer[position:start], "big", signed=True)
            self._check_size(bytes(buffer[position:start]), size)
            if len(buffer) - start < size:
                break
            frame = bytes(buffer[start : start + size])
            position = start + size
            self._stream.write(exchange.receive(frame, self._common.clock.wall_ms()))
        del buffer[:position]
        self._common.budget.release(position)
        if exchange.session is not None:
            self._complete(exchange.session, knows_lifetime=exchange.knows_lifetime)

    def _check_size(self, prefix: bytes, size: int) -> None:
        """Raises SaslFailure."""
        if 0 <= size <= self._rules.max_receive_bytes:
            return
        assert self._client is not None
        foreign = foreign_protocol(prefix, self._client.security_protocol)
        reason = foreign or f"a frame of {size} bytes before authentication: sasl.server.max.receive.size"
        raise SaslFailure(f"authentication failed: {reason}")

    def _complete(self, session: SaslSession, *, knows_lifetime: bool) -> None:
        client, metrics = self._client, self._common.metrics
        assert client is not None
        client.principal = session.identity.principal
        client.is_token_authenticated = session.identity.is_by_token
        if self._began_ms is None:
            metrics.authenticated(client.listener, knows_lifetime=knows_lifetime)
            client.reauthentication = self
        else:
            now_ms = self._common.clock.monotonic_ms()
            metrics.reauthenticated(client.listener, now_ms - self._began_ms, now_ms)
        self._common.pending.discard(self)
        self._stop_timer()
        if session.lifetime_ms is not None:
            self._timer = self._common.timer.schedule(session.lifetime_ms, self._life.session_expired)
        self._session = session
        self._exchange = None
        rest = bytes(self._buffer)
        self._release()
        assert self._authenticated is not None
        self._authenticated(rest)

    # --- authenticating again ---

    def begin_again(
        self, request: SaslHandshakeRequest, version: int, correlation_id: int
    ) -> SaslHandshakeResponse | None:
        """Begin another authentication, and return the response to its SaslHandshake: None when it has failed, which closes
        the connection. Raises ValueError when the client may not authenticate again now."""
        now_ms = self._common.clock.monotonic_ms()
        earlier = self._session
        assert earlier is not None and self._client is not None
        if earlier.lifetime_ms is None:
            raise ValueError("sessions do not end on this listener")
        if self._began_ms is not None and now_ms - self._began_ms < SHORTEST_REAUTHENTICATION_PERIOD_MS:
            raise ValueError("a client may not authenticate more often")
        self._began_ms = now_ms
        self._exchange = self._begun(self._client, earlier)
        self._life.authenticate_again()
        self._limit_time()
        try:
            return self._exchange.handshake(request, version, correlation_id)
        except SaslFailure as failure:  # without a response, as in Kafka
            self._fail(SaslFailure(str(failure), is_delayed=False))
            return None

    def count_expired(self) -> None:
        """A request came after the end of the session."""
        assert self._client is not None
        self._common.metrics.expired_connection_killed(self._client.listener)

    # --- the end ---

    def _limit_time(self) -> None:
        self._stop_timer()
        timeout_ms = self._rules.timeout_ms
        self._timer = self._common.timer.schedule(
            timeout_ms, lambda: self._end(f"the client did not authenticate within {timeout_ms} ms")
        )

    def _fail(self, failure: SaslFailure) -> None:
        """Close, after the delay, with the failure's response."""
        client = self._client
        assert client is not None
        self._stop_timer()
        self._release()
        exchange = self._exchange
        assert exchange is not None
        self._common.audit.login_failed(client, str(failure), mechanism=exchange.mechanism, user=exchange.user)
        if self._began_ms is None:
            self._common.metrics.authentication_failed(client.listener)
        else:
            self._common.metrics.reauthentication_failed(client.listener)
        if not failure.is_delayed or not self._rules.failure_delay_ms:
            self._respond_and_close(failure)
            return
        self._is_over = True
        self._life.hold(WAITS_FOR_DELAYED_CLOSE)
        self._timer = self._common.timer.schedule(
            self._rules.failure_delay_ms, lambda: self._respond_and_close(failure)
        )

    def _respond_and_close(self, failure: SaslFailure) -> None:
        if self._stream is not None and failure.response is not None:
            self._stream.write(failure.response)
        self._end(str(failure))

    def _end(self, reason: str) -> None:
        self._is_over = True
        self._stop_timer()
        self._release()
        self._life.close(reason)

    def _release(self) -> None:
        self._common.budget.release(len(self._buffer))
        self._buffer = bytearray()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
