"""What a connection checks before it takes a frame. One that may not come closes it, with one log line.

Rules: no IO; off the hot path: the first request of a connection, those behind the end of a session, those of an API or a
version that no request had before, and frames of an unusual size.
Source: Kafka SocketServer.Processor.processCompletedReceives, NetworkReceive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.connections.connection_phase import ConnectionPhase
from broker.network.requests.header_reader import SIZE
from broker.network.requests.request_checks import foreign_protocol, impossible_length, not_served
from protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from broker.network.connections.connection_life import ConnectionLife
    from broker.network.connections.connection_shared import ConnectionShared
    from broker.network.routes import Route
    from broker.network.sasl.authentication import Authentication

_FIRST_REQUEST, _SERVING, _SESSION_EXPIRED = (
    int(phase) for phase in (ConnectionPhase.FIRST_REQUEST, ConnectionPhase.SERVING, ConnectionPhase.SESSION_EXPIRED)
)


class FrameChecks:
    """Owned by a connection. Each check returns whether the frame may be taken; if not, the connection is closed."""

    __slots__ = ("_authentication", "_life", "_security_protocol", "_shared")

    def __init__(
        self,
        shared: ConnectionShared,
        life: ConnectionLife,
        security_protocol: str,
        authentication: Authentication | None,
    ) -> None:
        self._shared = shared
        self._life = life
        self._security_protocol = security_protocol
        self._authentication = authentication

    def request(self, view: memoryview, api_key: int, version: int) -> bool:
        """Check a connection's first request, any behind its session's end, and any without a known route."""
        if not self.start(view) or not self.session(api_key):
            return False
        if self._life.phase == _FIRST_REQUEST:
            self._life.phase = _SERVING
        return self._passes(not_served(self._shared.dispatch.table, api_key, version))

    def session(self, api_key: int) -> bool:
        """Check that the session is not over, or that the client authenticates again."""
        authentication = self._authentication
        if self._life.phase != _SESSION_EXPIRED or authentication is None or api_key == SaslHandshakeRequest.api_key:
            return True
        authentication.count_expired()
        return self._passes("the session has ended, and the client has not authenticated again")

    def start(self, view: memoryview) -> bool:
        """Check the length prefix at the start of `view`."""
        prefix = bytes(view[: SIZE.size])
        is_first = self._life.phase == _FIRST_REQUEST
        reason = foreign_protocol(prefix, self._security_protocol) if is_first else None
        return self._passes(reason or impossible_length(prefix, self._shared.limits))

    def size(self, size: int, route: Route | None) -> bool:
        """Check that a request of this kind may have this size."""
        may_be_large = route is not None and (route.has_records or route.is_control)
        return self._passes(self._shared.limits.refusal(size, may_be_large=may_be_large))

    def _passes(self, reason: str | None) -> bool:
        """Close for `reason`, if there is one. Returns whether there is none."""
        if reason is not None:
            self._life.close(reason)
        return reason is None
