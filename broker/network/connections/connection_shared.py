"""What the connections of one broker share: limits, memory, dispatch to handlers.

Rules: no IO. One `ConnectionShared` belongs to one event loop: its receive buffer holds one connection's bytes at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.network.connections.connection_limits import ConnectionLimits, KiB

if TYPE_CHECKING:
    from broker.network.memory_budget import MemoryBudget
    from broker.network.request_log import AnyDispatch
    from broker.network.responses.response_memory import ResponseMemory
    from broker.network.routes import Route
    from broker.network.sasl.authentication import ListenersAuthentication
    from broker.services import Services
    from runtime.timer import Timer

RECEIVE_BUFFER_BYTES = 64 * KiB


class ReceiveBuffer:
    """The memory into which all connections of one loop receive, one at a time."""

    __slots__ = ("view",)

    def __init__(self, size_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        self.view = memoryview(bytearray(size_bytes))


@dataclass(slots=True)
class ConnectionShared:
    """What the connections of a broker have in common. `tick` counts the sweeps for idle ones. `plain_budget` is for large
    requests without records, which may wait for long, `budget` for all others. `authentication` is None without SASL."""

    dispatch: AnyDispatch
    services: Services
    budget: MemoryBudget
    plain_budget: MemoryBudget
    response_memory: ResponseMemory
    timer: Timer
    call_soon: Callable[[Callable[[], None]], object]
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    authentication: ListenersAuthentication | None = None
    receive_buffer: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    tick: int = 0
    next_connection: int = 0

    def dispatch_through(self, dispatch: AnyDispatch) -> None:
        """Dispatch requests through this one from now on."""
        self.dispatch = dispatch

    def budget_of(self, route: Route | None) -> MemoryBudget:
        """Where a frame of this kind is reserved."""
        return self.plain_budget if route is not None and route.is_plain else self.budget

    def parking_of(self, route: Route) -> MemoryBudget:
        """Where such a request is parked: those without records take no room from the others."""
        return self.budget if route.has_records else self.plain_budget
