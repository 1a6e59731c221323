"""The gate that every request passes twice, on either path: `admit` before its handler, `charge` behind it.

`admit` says who asks, and whether they may. `charge` says how much they used: it returns for how long the client is over its
quota. The response then carries this throttle time, and the connection is muted for as long.

Rules: pure. A gate decides from what it is given and what it keeps in memory, without awaiting: it is on the hot path. A
handler that filters resources checks them itself (`security.access`).
Invariants: each request that reaches a handler was admitted, and each that got its response, or needs none, was charged, once.
A request that the fast path recognises is admitted like any other; if it is refused, it takes the slow path, which refuses it.
Source: Kafka KafkaApis.handle, AuthHelper, ClientRequestQuotaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from broker.network.dispatch import Route
    from broker.network.request_context import RequestContext
    from protocol.errors import ErrorCode
    from protocol.schema import Request


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

    def charge(self, route: Route, context: RequestContext, request_bytes: int, response_bytes: int) -> int:
        """Count a request and its encoded response, and return the throttle time in milliseconds; 0 for none.

        Of a repeated request, `context` is that of the one that it repeats: the same client, another correlation id.
        """


class Gate(Admission, Charging, Protocol):
    """One object for all connections."""


class BrokerGate:
    """The gate of a broker: what its settings ask for admits, and charges. Callers keep the two bound methods."""

    __slots__ = ("admit", "charge")

    def __init__(self, admission: Admission, charging: Charging) -> None:
        self.admit = admission.admit
        self.charge = charging.charge


class OpenGate:
    """The gate of a broker without authorisation and quotas: everybody may do everything."""

    __slots__ = ()

    def admit(self, _route: Route, _request: Request, _context: RequestContext) -> Refusal | None:
        return None

    def charge(self, _route: Route, _context: RequestContext, _request_bytes: int, _response_bytes: int) -> int:
        return 0
