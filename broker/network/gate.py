"""The gate that every request passes twice, on either path: `admit` before its handler, `charge` behind it.

`admit` says who asks, and whether they may. `charge` says how much they used: it returns for how long the client is over its
quota. The response then carries this throttle time, and the connection is muted for as long.

Rules: pure. A gate decides from what it is given and what it keeps in memory, without awaiting: it is on the hot path. A
handler that filters resources checks them itself (`security.access`).
The time that a request takes is measured by the `Meter`, while something asks for it.
Invariants: each request that reaches a handler was admitted, and each that got its response, or needs none, was charged, once.
A request that the fast path recognises is admitted like any other; if it is refused, it takes the slow path, which refuses it.
Source: Kafka KafkaApis.handle, AuthHelper, ClientRequestQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection
    from broker.network.request_context import RequestContext
    from broker.network.routes import Route
    from protocol.errors import ErrorCode
    from protocol.schema import Request, Response


T = TypeVar("T")


class Refusal(NamedTuple):
    """Why a request does not reach its handler. Its response carries the error."""

    error: ErrorCode
    message: str | None = None


class Admission(Protocol):
    """Who asks, and may they."""

    def admit(self, route: Route, request: Request, context: RequestContext) -> Refusal | None:
        """Return why a request may not reach its handler, or None. Of a repeated request the fast path gives the one that it
        repeats, without records."""


class Charging(Protocol):
    """How much a client has used."""

    def charge(
        self, route: Route, context: RequestContext, request_bytes: int, response_bytes: int, response: Response | None
    ) -> int:
        """Count a request and its encoded response, and return the throttle time in milliseconds; 0 for none.

        `response` is None on the fast path, and, with 0 bytes, where none is sent. Of a repeated request, `context` is that of
        the one that it repeats: the same client, another correlation id.
        """


class Meter(Protocol):
    """How long requests take. Its methods are called while `times_requests`."""

    times_requests: bool

    def timed(self, connection: ClientConnection, work: Callable[..., T], *arguments: Any) -> T:
        """Do a part of the work for a request, and count its time."""

    def timed_rest(self, connection: ClientConnection, rest: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Go on with a handler that waits, and count the time of each of its turns."""


class Gate(Admission, Charging, Protocol):
    """One object for all connections."""

    @property
    def meter(self) -> Meter: ...


class BrokerGate:
    """The gate of a broker: what its settings ask for admits, and charges. Callers keep the two bound methods."""

    __slots__ = ("admit", "charge", "meter")

    def __init__(self, admission: Admission, charging: Charging, meter: Meter) -> None:
        self.admit = admission.admit
        self.charge = charging.charge
        self.meter = meter


class NoMeter:
    """Measures nothing."""

    __slots__ = ()

    times_requests = False

    def timed(self, _connection: ClientConnection, work: Callable[..., T], *arguments: Any) -> T:
        return work(*arguments)

    def timed_rest(self, _connection: ClientConnection, rest: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        return rest


class OpenGate:
    """The gate of a broker without authorisation and quotas: every client may do everything."""

    __slots__ = ()

    meter = NoMeter()

    def admit(self, _route: Route, _request: Request, _context: RequestContext) -> Refusal | None:
        return None

    def charge(
        self, _route: Route, _context: RequestContext, _request_bytes: int, _size: int, _response: Response | None
    ) -> int:
        return 0
