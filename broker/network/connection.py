"""One client's connection: bytes in, requests to their handlers, responses out in request order.

Rules: sans-IO; it is the `ConnectionHandler` of a `runtime.network.transport` stream and knows neither sockets nor event loop.
What it receives goes to its `RequestIntake`, what is ready comes from its `ResponseQueue`; here are its life, what it waits
for, and its end.

Order: Produce and Fetch overlap: stage one runs immediately and in order, stage two (a `Deferred`) finishes when it can,
and the responses are sent in request order (`ResponseQueue`). Any other request is a barrier: it starts when the earlier ones
have their responses, and the next starts when it has. Nothing starts inside another request's handler: what a response unblocks
runs in the next turn of the loop.

Bounds: what is received and not started (`RequestIntake`, `FrameMemory`), unsent bytes (the transport's high-water mark stops
reading; all connections together: `ResponseMemory`).
Its life is a `ConnectionPhase`; a malformed frame, an unknown API or a version that is not served ends it with one log line.
Source: Kafka Selector, KafkaChannel, SocketServer.Processor, NetworkReceive.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.network.client_connection import ClientConnection
from broker.network.connection_phase import (
    WAITS_FOR_DELAYED_CLOSE,
    WAITS_FOR_EARLIER,
    WAITS_FOR_QUOTA,
    WAITS_FOR_READER,
    WAITS_LONG,
    ConnectionPhase,
)
from broker.network.connection_shared import ConnectionShared
from broker.network.request_intake import RequestIntake
from broker.network.response_queue import ResponseQueue
from broker.network.sasl.authentication import Authentication
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from runtime.network.transport import Connection
    from runtime.timer import TimerEntry
    from security.principal import Principal

logger = logging.getLogger(__name__)

# As plain numbers: they are compared for every request, and to compare members of an enum costs a call.
_OPENING, _AUTHENTICATING, _FIRST_REQUEST, _SERVING, _SESSION_EXPIRED, _FINISHING, _CLOSING, _CLOSED = (
    int(phase) for phase in ConnectionPhase
)


class RequestConnection:
    """Made by the acceptor for a stream, then `connected`, requests, `disconnected`; after that it keeps nothing."""

    __slots__ = (
        "_authentication",
        "_connection",
        "_finish_reason",
        "_in_flight",
        "_is_reading",
        "_is_scheduled",
        "_listener",
        "_mute_timer",
        "_responses",
        "_security_protocol",
        "_shared",
        "active_tick",
        "client",
        "intake",
        "phase",
        "receive_buffer",
        "received",
    )

    def __init__(self, shared: ConnectionShared, listener: str, security_protocol: str) -> None:
        self._shared = shared
        self._listener = listener
        self._security_protocol = security_protocol
        self._connection: Connection | None = None
        self.client: ClientConnection | None = None
        self.active_tick = shared.tick
        self.phase: int = _OPENING
        self._finish_reason = ""
        self._authentication: Authentication | None = None
        common = shared.authentication
        if common is not None and listener in common.rules:
            self._authentication = Authentication(listener, common, shared, self)
        self._responses = ResponseQueue(shared, self)
        self._in_flight = self._responses.in_flight
        self.intake = RequestIntake(shared, self, self._responses, security_protocol, self._authentication)
        # The stream calls these for all bytes: without a call in between.
        self.receive_buffer, self.received = self.intake.receive_buffer, self.intake.received
        self._mute_timer: TimerEntry | None = None
        self._is_reading = True
        self._is_scheduled = False  # to continue in the next turn of the loop

    # --- called by the stream ---

    def connected(self, connection: Connection) -> None:
        self._connection = self._responses.stream = connection
        self.phase = _FIRST_REQUEST
        shared = self._shared
        shared.next_connection += 1
        peer, local = connection.peer, connection.local
        self.client = ClientConnection(
            connection_id=f"{local.host}:{local.port}-{peer.host}:{peer.port}-{shared.next_connection}",
            listener=self._listener,
            security_protocol=self._security_protocol,
            peer=peer,
            local=local,
            principal=ANONYMOUS,
            takes_ranges=connection.takes_ranges,
        )
        self.intake.connected(self.client)
        refusal = shared.owner.admit(self)
        if refusal is not None:
            self.close(refusal)
        elif self._authentication is not None:
            self.phase = _AUTHENTICATING
            self._authentication.begin(connection, self.client)

    def writing_paused(self) -> None:
        self.intake.hold(WAITS_FOR_READER)

    def writing_resumed(self) -> None:
        self.intake.release(WAITS_FOR_READER)
        self._responses.trim()

    def disconnected(self, _error: Exception | None) -> None:
        shared = self._shared
        self.phase = _CLOSED
        self._connection = None
        self._responses.close()
        self.intake.close()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        if self._authentication is not None:
            self._authentication.close()
        shared.owner.closed(self)
        if self.client is not None:
            for callback in self.client.closed_callbacks:
                callback()
            self.client.closed_callbacks.clear()

    # --- called by the broker ---

    @property
    def is_closing(self) -> bool:
        return self.phase >= _CLOSING

    @property
    def has_requests(self) -> bool:
        return bool(self._in_flight)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes()

    def mute(self, duration_ms: int) -> None:
        """Start no request and read nothing for so long: the client is over its quota. Responses are sent meanwhile."""
        if self.phase >= _CLOSING:
            return
        self.intake.hold(WAITS_FOR_QUOTA)
        before, until = self._mute_timer, self._shared.timer.schedule(duration_ms, self._unmute)
        if before is not None and before.deadline_tick > until.deadline_tick:  # of an earlier response
            until.cancel()
            return
        if before is not None:
            before.cancel()
        self._mute_timer = until

    def serve_only(self, keys: frozenset[int]) -> None:
        """Start nothing but requests of the APIs `keys` until `serve_all`: the broker is not ready."""
        self.intake.served_keys = keys
        if not keys:
            self.intake.hold(WAITS_FOR_EARLIER)

    def serve_all(self) -> None:
        self.intake.served_keys = None
        self.continue_soon()

    def finish(self, reason: str) -> None:
        """Start nothing any more, expedite what has started, and close when it has its responses."""
        if self.phase >= _CLOSING:
            return
        if not self._in_flight:
            self.close(reason, level=logging.DEBUG)
            return
        self.phase = _FINISHING
        self._finish_reason = reason
        self.intake.hold(WAITS_FOR_EARLIER)
        self._responses.expedite()

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        """Send what is ready, then close. `reason` becomes the one log line."""
        if self.phase < _CLOSING:
            self._begin_close(reason, level)
            if self._connection is not None:
                self._responses.flush()
                self._connection.close()
            self._responses.stream = None

    def disconnect(self, reason: str) -> None:
        """Close immediately and drop what is ready: its peer does not read. `reason` becomes the one log line."""
        if self.phase < _CLOSING:
            self._begin_close(reason, logging.WARNING)
        self._responses.drop_ready()
        if self._connection is not None:
            self._connection.abort()

    def _begin_close(self, reason: str, level: int) -> None:
        self.phase = _CLOSING
        client = self.client
        assert client is not None
        logger.log(
            level,
            "connection closed: address=%s:%d listener=%s reason=%s",
            client.peer.host,
            client.peer.port,
            client.listener,
            reason,
        )

    def abort(self) -> None:
        """Close without waiting for a peer that does not read, and without a log line."""
        self.phase = max(self.phase, _CLOSING)
        self._responses.stream = None
        if self._connection is not None:
            self._connection.abort()

    # --- called by the authentication ---

    def authenticated(self, rest: bytes) -> None:
        """Serve requests, beginning with the bytes that came behind the exchange."""
        self.phase = _SERVING
        self.intake.keep(rest)

    def authenticate_again(self) -> None:
        """Give all bytes that follow to the authentication, from the next turn of the loop on."""
        self.phase = _AUTHENTICATING
        self.intake.waits |= WAITS_FOR_EARLIER
        self.continue_soon()

    def session_expired(self) -> None:
        if self.phase == _SERVING:
            self.phase = _SESSION_EXPIRED

    def pause_authentication(self) -> None:
        self.intake.hold(WAITS_FOR_DELAYED_CLOSE)

    # --- called by TLS ---

    def secured(self, principal: Principal | None, *, cipher: str, version: str) -> None:
        """The handshake is complete. `principal` is the one of the client's certificate; None: it is found otherwise."""
        client = self.client
        assert client is not None
        client.cipher, client.tls_version = cipher, version
        if principal is not None:
            client.principal = principal
            self._shared.services.metrics.authentication.authenticated(client.listener, knows_lifetime=False)

    def tls_failed(self, reason: str) -> None:
        """Close: the client has not shown who it is."""
        services, client = self._shared.services, self.client
        assert client is not None
        services.metrics.authentication.authentication_failed(self._listener)
        services.audit.login_failed(client, reason, mechanism="TLS")
        self.close(reason)

    # --- continuing ---

    def continue_soon(self) -> None:
        """In the next turn of the loop, send what is ready and start what may start."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._shared.call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        if self._connection is None or self.phase >= _CLOSING:
            return
        self._responses.flush()
        if self.phase == _FINISHING:
            if not self._in_flight:
                self.close(self._finish_reason, level=logging.DEBUG)
        elif self.intake.waits and not self.intake.waits & WAITS_LONG:
            self.intake.start_pending()

    def _unmute(self) -> None:
        self._mute_timer = None
        self.intake.release(WAITS_FOR_QUOTA)

    def pause_reading(self) -> None:
        if self._is_reading and self._connection is not None:
            self._is_reading = False
            self._connection.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and self._connection is not None:
            self._is_reading = True
            self._connection.resume_reading()
