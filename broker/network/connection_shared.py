"""What the connections of one broker share: limits, memory, dispatch to handlers.

Rules: no IO. One `ConnectionShared` belongs to one event loop: its receive buffer holds one connection's bytes at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from protocol.schema import MAX_ELEMENTS

if TYPE_CHECKING:
    from broker.network.connection import RequestConnection
    from broker.network.dispatch import Dispatch
    from broker.network.memory_budget import MemoryBudget
    from broker.network.request_log import LoggedDispatch
    from broker.network.response_memory import ResponseMemory
    from broker.network.routes import Route
    from broker.network.sasl.authentication import ListenersAuthentication
    from broker.services import Services
    from runtime.timer import Timer

KiB = 1024
MiB = 1024 * KiB

RECEIVE_BUFFER_BYTES = 64 * KiB
# API key, version, correlation id, and the length of a client id or the broker id of ControlledShutdown v0.
SMALLEST_FRAME_BYTES = 10
MAX_CONTROL_ELEMENTS = 5_000_000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`max_plain_bytes` bounds requests that hold neither records nor the cluster's partitions, `max_in_flight` those that
    overlap on one connection. `max_control_elements` is for what brokers tell each other about all partitions at once:
    200,000 of them count as some three million."""

    max_frame_bytes: int = 100 * MiB
    max_plain_bytes: int = 16 * MiB
    max_in_flight: int = 512
    max_elements: int = MAX_ELEMENTS
    max_control_elements: int = MAX_CONTROL_ELEMENTS

    def refusal(self, size: int, *, may_be_large: bool) -> str | None:
        """Why no request may have `size` bytes, or None."""
        if SMALLEST_FRAME_BYTES <= size <= (self.max_frame_bytes if may_be_large else self.max_plain_bytes):
            return None
        return f"a request of {size} bytes is malformed or too large"


class ConnectionOwner(Protocol):
    """The acceptor, which counts connections from `admit` to `closed`."""

    def admit(self, connection: RequestConnection) -> str | None:
        """None, or the reason why it is closed immediately."""

    def closed(self, connection: RequestConnection) -> None: ...


class ReceiveBuffer:
    """The memory into which all connections of one loop receive, one at a time."""

    __slots__ = ("view",)

    def __init__(self, size_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        self.view = memoryview(bytearray(size_bytes))


@dataclass(slots=True)
class ConnectionShared:
    """What the connections of a broker have in common. `tick` counts the sweeps for idle ones. `plain_budget` is for large
    requests without records, which may wait for long, `budget` for all others. `authentication` is None without SASL."""

    dispatch: Dispatch | LoggedDispatch
    services: Services
    budget: MemoryBudget
    plain_budget: MemoryBudget
    response_memory: ResponseMemory
    owner: ConnectionOwner
    timer: Timer
    call_soon: Callable[[Callable[[], None]], object]
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    authentication: ListenersAuthentication | None = None
    receive_buffer: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    tick: int = 0
    next_connection: int = 0

    def budget_of(self, route: Route | None) -> MemoryBudget:
        """Where a frame of this kind is reserved."""
        return self.plain_budget if route is not None and route.is_plain else self.budget

    def parking_of(self, route: Route) -> MemoryBudget:
        """Where such a request is parked: those without records take no room from the others."""
        return self.budget if route.has_records else self.plain_budget
