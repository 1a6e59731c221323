"""What a handler knows about its request, besides the decoded message.

Invariant: a context lives as long as its request; a connection's facts are shared by all of its contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from runtime.network.transport import Address

if TYPE_CHECKING:
    from broker.services import Services
    from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
    from security.access import Operation, ResourceType
    from security.principal import Principal

T = TypeVar("T")


class CloseConnection(Exception):
    """A handler asks for the connection to be closed: no response can say what is wrong. The text goes to the log."""


class _Waiting:
    """The mark of an outcome that is not there yet; None may be one."""


_WAITING = _Waiting()


class FrameOwner(Protocol):
    """The one that counts the bytes of a request's frame in a budget."""

    def release_frame(self) -> None: ...


class Deferred(Generic[T]):
    """A response that comes later: stage two of Produce and Fetch. Completed once; later completions are ignored.

    Owner: the handler completes it, the connection waits for it. `abandon` informs the handler that nobody waits any more
    (the connection is closed), so that it can leave its waiting lists; `expedite`, that it should wait no longer.
    `release_frame` informs the connection that the bytes of the request's frame are needed no longer.
    """

    __slots__ = ("_abandoned", "_callback", "_expedited", "_value", "frame_owner", "is_barrier", "keeps_request")

    def __init__(self, *, is_barrier: bool = False, keeps_request: bool = True) -> None:
        """`is_barrier`: no later request of the connection starts before this one has its response. `keeps_request`: the
        frame stays in memory until the response, or until it is released; if not, little is left, or another component
        counts it."""
        self.is_barrier = is_barrier
        self.keeps_request = keeps_request
        self.frame_owner: FrameOwner | None = None
        self._value: Any = _WAITING
        self._callback: Callable[[T], None] | None = None
        self._abandoned: Callable[[], None] | None = None
        self._expedited: Callable[[], None] | None = None

    def complete(self, value: T) -> None:
        if self._value is not _WAITING:
            return
        self._value = value
        self._abandoned = self._expedited = self.frame_owner = None
        if self._callback is not None:
            self._callback(value)

    @property
    def is_complete(self) -> bool:
        return self._value is not _WAITING

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value, immediately when it is there."""
        assert self._callback is None, "one callback for each Deferred"
        self._callback = callback
        if self._value is not _WAITING:
            callback(cast(T, self._value))

    def follow(self, outcome: T | Deferred[T]) -> None:
        """Complete with `outcome` when it is there, and pass on `abandon` and `expedite` to it."""
        if not isinstance(outcome, Deferred):
            self.complete(outcome)
            return
        self._abandoned, self._expedited = outcome.abandon, outcome.expedite
        if outcome.keeps_request:
            outcome.frame_owner = self
        else:
            self.release_frame()
        outcome.then(self.complete)

    def release_frame(self) -> None:
        """The bytes of the request's frame are needed no longer. No effect once it is completed or abandoned."""
        self.keeps_request = False
        owner, self.frame_owner = self.frame_owner, None
        if owner is not None:
            owner.release_frame()

    def on_abandon(self, callback: Callable[[], None]) -> None:
        self._abandoned = callback

    def abandon(self) -> None:
        callback, self._abandoned = self._abandoned, None
        self._callback = self._expedited = self.frame_owner = None
        if callback is not None:
            callback()

    def on_expedite(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the broker stops: for waits that only save the client another request."""
        self._expedited = callback

    def expedite(self) -> None:
        if self._expedited is not None:
            self._expedited()


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


def _always(_name: str) -> bool:
    return True


class _Decisions:
    """What a client may do in one request, by the name of the resource."""

    __slots__ = ("_by_name", "_context", "_logs_denial", "_operation", "_resource_type")

    def __init__(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, *, logs_denial: bool
    ) -> None:
        self._context = context
        self._operation = operation
        self._resource_type = resource_type
        self._logs_denial = logs_denial
        self._by_name: dict[str, bool] = {}

    def of(self, name: str) -> bool:
        known = self._by_name.get(name)
        if known is None:
            known = self._by_name[name] = self._context.allows(
                self._operation, self._resource_type, name, logs_denial=self._logs_denial
            )
        return known


@dataclass(slots=True)
class RequestContext:
    """`client_id` is None when the client sent none."""

    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ClientConnection
    services: Services
    api_name: str = field(default="", init=False)
    """For the log of denials; set by a gate that may refuse."""

    @property
    def client_host(self) -> str:
        return self.connection.peer.host

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        """Return whether the client may do `operation` on a resource. The answer is logged, unless it is no and the client has
        not asked for this resource: it asks for all that it may see, or what it may do."""
        connection = self.connection
        services = self.services
        is_allowed = services.authorizer.allows(
            connection.principal, connection.peer.host, operation, resource_type, name
        )
        if not is_allowed:
            if logs_denial:
                services.audit.denied(self, operation, resource_type, name)
        elif services.audit.logs_allowed:
            services.audit.allowed(self, operation, resource_type, name)
        return is_allowed

    def may(
        self, operation: Operation, resource_type: ResourceType, *, logs_denial: bool = True
    ) -> Callable[[str], bool]:
        """Return a function from the name of a resource of this type to whether the client may do `operation` on it. Each
        name is decided, and logged, once."""
        if self.services.authorizer.is_open:
            return _always
        return _Decisions(self, operation, resource_type, logs_denial=logs_denial).of

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there is a resource of this type on which the client may do `operation`. A no is logged."""
        connection = self.connection
        is_allowed = self.services.authorizer.allows_any(
            connection.principal, connection.peer.host, operation, resource_type
        )
        if not is_allowed:
            self.services.audit.denied(self, operation, resource_type, "")
        return is_allowed

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
