"""What is known of the client at the other end of a connection, and of a request of it, besides the decoded message.

Rules: plain data. Who needs the broker's components as well takes the `RequestContext` (`broker.network.request_context`),
which adds them to these facts.
Invariant: the facts of a connection are shared by all of its requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from runtime.network.transport import Address

if TYPE_CHECKING:
    from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
    from security.principal import Principal


class Reauthentication(Protocol):
    """What lets the client of a connection authenticate again (KIP-368)."""

    def begin_again(
        self, request: SaslHandshakeRequest, version: int, correlation_id: int
    ) -> SaslHandshakeResponse | None:
        """Begin, and return the response; None when the connection is closed. Raises ValueError when the client may not do so
        now."""


@dataclass(slots=True)
class ClientConnection:
    """The facts of one connection that outlive a request.

    `principal` changes when the client authenticates; `software` is (name, version) once an ApiVersions request has named them.
    `reauthentication` is there once it has authenticated with SASL; `is_token_authenticated` when it did so with a delegation
    token.
    `processing_ns` is the time that its requests took and that was not charged yet, `began_ns` when the work began that is
    being done; both are used while requests are timed.
    """

    connection_id: str
    listener: str
    security_protocol: str
    peer: Address
    local: Address
    principal: Principal
    takes_ranges: bool = False
    """Whether ranges of files leave without being read (see `runtime.network.transport.Connection`)."""
    software: tuple[str, str] | None = None
    is_token_authenticated: bool = False
    reauthentication: Reauthentication | None = None
    cipher: str = ""
    """With TLS, the cipher suite, in OpenSSL's name."""
    tls_version: str = ""
    """With TLS, as in "TLSv1.3"."""
    processing_ns: int = 0
    began_ns: int = 0
    closed_callbacks: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True)
class RequestFacts:
    """The facts of one request. `client_id` is None when the client sent none."""

    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ClientConnection
    api_name: str = field(default="", init=False)
    """For the log of denials; set by a gate that may refuse."""
    denials_count: int = field(init=False, repr=False, compare=False)
    """Errors of this request that are about a denial; set by a gate that may refuse."""

    @property
    def client_host(self) -> str:
        return self.connection.peer.host

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    @property
    def local_address(self) -> Address:
        return self.connection.local

    @property
    def connection_id(self) -> str:
        return self.connection.connection_id

    @property
    def software(self) -> tuple[str, str] | None:
        return self.connection.software

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the connection is closed."""
        self.connection.closed_callbacks.append(callback)
