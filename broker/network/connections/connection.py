"""One client's connection: bytes in, requests to their handlers, responses out in request order.

Rules: sans-IO; it is the `ConnectionHandler` of a `runtime.network.transport` stream and knows neither sockets nor event loop.
What it receives goes to its `RequestIntake`, what is ready comes from its `ResponseQueue`; what these do to the connection goes
through its `ConnectionLife`. Here the parts are joined.

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
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.network.connections.client_connection import ClientConnection
from broker.network.connections.connection_life import ConnectionLife
from broker.network.connections.connection_phase import WAITS_FOR_EARLIER, WAITS_FOR_READER, WAITS_LONG, ConnectionPhase
from broker.network.requests.request_intake import RequestIntake
from broker.network.responses.response_queue import ResponseQueue
from broker.network.sasl.authentication import Authentication
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from broker.network.connections.connection_shared import ConnectionShared
    from runtime.network.transport import Connection
    from security.principal import Principal

_AUTHENTICATING, _FIRST_REQUEST, _SERVING, _FINISHING, _CLOSING = (
    int(phase)
    for phase in (
        ConnectionPhase.AUTHENTICATING, ConnectionPhase.FIRST_REQUEST, ConnectionPhase.SERVING, ConnectionPhase.FINISHING,
        ConnectionPhase.CLOSING,
    )
)  # fmt: skip


class RequestConnection:
    """Made by the acceptor for a stream, then `connected`, requests, `disconnected`; after that it keeps nothing.

    `admit` returns why the connection is closed immediately, or None; `closed` is called at its end.
    """

    __slots__ = (
        "_admit",
        "_authentication",
        "_closed",
        "_finish_reason",
        "_in_flight",
        "_listener",
        "_responses",
        "_security_protocol",
        "_shared",
        "intake",
        "life",
        "receive_buffer",
        "received",
    )

    def __init__(
        self,
        shared: ConnectionShared,
        listener: str,
        security_protocol: str,
        admit: Callable[[RequestConnection], str | None],
        closed: Callable[[RequestConnection], None],
    ) -> None:
        self._shared = shared
        self._listener = listener
        self._security_protocol = security_protocol
        self._admit, self._closed = admit, closed
        self._finish_reason = ""
        life = self.life = ConnectionLife(shared.timer, shared.call_soon, shared.tick)
        self._authentication: Authentication | None = None
        common = shared.authentication
        if common is not None and listener in common.rules:
            self._authentication = Authentication(listener, common, life)
        self._responses = ResponseQueue(shared, life)
        self._in_flight = self._responses.in_flight
        self.intake = RequestIntake(shared, life, self._responses, security_protocol, self._authentication)
        life.run, life.end_writing = self._run, self._responses.end_writing
        # The stream calls these for all bytes: without a call in between.
        self.receive_buffer, self.received = self.intake.receive_buffer, self.intake.received

    # --- called by the stream ---

    def connected(self, connection: Connection) -> None:
        life, shared = self.life, self._shared
        life.stream = self._responses.stream = connection
        life.phase = _FIRST_REQUEST
        shared.next_connection += 1
        peer, local = connection.peer, connection.local
        client = life.client = ClientConnection(
            connection_id=f"{local.host}:{local.port}-{peer.host}:{peer.port}-{shared.next_connection}",
            listener=self._listener,
            security_protocol=self._security_protocol,
            peer=peer,
            local=local,
            principal=ANONYMOUS,
            takes_ranges=connection.takes_ranges,
        )
        refusal = self._admit(self)
        if refusal is not None:
            life.close(refusal)
        elif self._authentication is not None:
            life.phase = _AUTHENTICATING
            self._authentication.begin(connection, client, self._authenticated)

    def writing_paused(self) -> None:
        self.life.hold(WAITS_FOR_READER)

    def writing_resumed(self) -> None:
        self.life.release(WAITS_FOR_READER)
        self._responses.trim()

    def disconnected(self, _error: Exception | None) -> None:
        self.life.ended()
        self._responses.close()
        self.intake.close()
        if self._authentication is not None:
            self._authentication.close()
        self._closed(self)
        client = self.life.client
        if client is not None:
            for callback in client.closed_callbacks:
                callback()
            client.closed_callbacks.clear()

    # --- called by the broker ---

    @property
    def client(self) -> ClientConnection:
        """There is one once the connection is made."""
        assert self.life.client is not None
        return self.life.client

    @property
    def is_closing(self) -> bool:
        return self.life.phase >= _CLOSING

    @property
    def has_requests(self) -> bool:
        return bool(self._in_flight)

    def serve_only(self, keys: frozenset[int]) -> None:
        """Start nothing but requests of the APIs `keys` until `serve_all`: the broker is not ready."""
        self.intake.served_keys = keys
        if not keys:
            self.life.hold(WAITS_FOR_EARLIER)

    def serve_all(self) -> None:
        self.intake.served_keys = None
        self.life.continue_soon()

    def finish(self, reason: str) -> None:
        """Start nothing any more, expedite what has started, and close when it has its responses."""
        if self.is_closing:
            return
        if not self._in_flight:
            self.life.close(reason, level=logging.DEBUG)
            return
        self.life.phase = _FINISHING
        self._finish_reason = reason
        self.life.hold(WAITS_FOR_EARLIER)
        self._responses.expedite()

    # --- called by the authentication ---

    def _authenticated(self, rest: bytes) -> None:
        """Serve requests, beginning with the bytes that came behind the exchange."""
        self.life.phase = _SERVING
        self.intake.keep(rest)

    # --- called by TLS ---

    def secured(self, principal: Principal | None, *, cipher: str, version: str) -> None:
        """The handshake is complete. `principal` is the one of the client's certificate; None: it is found otherwise."""
        client = self.client
        client.cipher, client.tls_version = cipher, version
        if principal is not None:
            client.principal = principal
            self._shared.services.metrics.authentication.authenticated(client.listener, knows_lifetime=False)

    def tls_failed(self, reason: str) -> None:
        """Close: the client has not shown who it is."""
        services = self._shared.services
        services.metrics.authentication.authentication_failed(self._listener)
        services.audit.login_failed(self.client, reason, mechanism="TLS")
        self.life.close(reason)

    # --- called by its life ---

    def _run(self) -> None:
        """Send what is ready and start what may start."""
        self._responses.flush()
        life = self.life
        if life.phase == _FINISHING:
            if not self._in_flight:
                life.close(self._finish_reason, level=logging.DEBUG)
        elif life.waits and not life.waits & WAITS_LONG:
            self.intake.start_pending()
