"""The open connections of a broker: their limits, and the end of idle ones.

Rules: no IO of its own. Until `open`, connections are accepted and served only what makes the broker ready. `max.connections`
and `max.connections.per.ip` (with overrides by address) are checked when a connection is open: one too many is closed
immediately with a log line. Brokers that come by a listener of their own are admitted above `max.connections`; for each, the
connection of a client is closed that has been quiet for the longest. One timer sweeps over all connections. A connection
is idle when nothing came from it for `connections.max.idle.ms` (give or take a sweep) and no request of it runs; one that
stops in the middle of a request while others wait for the memory that it has reserved is closed much sooner. When a request has
waited long, so are those whose request comes so slowly that their client will have given up before it is complete.
Invariants: the counts are those of the connections that were admitted and are not gone.
Source: Kafka SocketServer.Acceptor, ConnectionQuotas, Selector.IdleExpiryManager; KIP-402.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.network.connection import RequestConnection
from broker.network.connection_shared import ConnectionShared

if TYPE_CHECKING:
    from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

NO_LIMIT = 2**31 - 1
# Sweeps come at an eighth of the idle time, and at least this often.
SWEEPS_PER_IDLE_PERIOD = 8
LONGEST_SWEEP_PERIOD_MS = 5_000
# A connection that is being closed may take so many sweeps to send its last responses.
CLOSING_SWEEPS = 2
# One that has reserved memory others wait for may pause for so many in the middle of a request.
STALLED_SWEEPS = 2
# A request waits so long for a broker to be ready, or for the rest of it; its client has given up by then (request.timeout.ms).
BROKER_WAIT_MS = 30_000


@dataclass(slots=True)
class AcceptLimits:
    """May be changed while the broker runs; new connections see it. Overrides are by canonical IP address."""

    max_connections: int = NO_LIMIT
    max_connections_per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_idle_ms: int = 600_000  # below 0: no connection is ever idle


class Acceptor:
    """The open connections. `shared` is set by `serve` since it names this object as their owner. Until `open`, only
    requests of `early_keys` are served; the others wait. `brokers_listener` is the one that brokers have for themselves."""

    def __init__(
        self,
        timer: Timer,
        limits: AcceptLimits | None = None,
        *,
        early_keys: frozenset[int] = frozenset(),
        brokers_listener: str | None = None,
    ) -> None:
        self.limits = limits or AcceptLimits()
        self._timer = timer
        self._early_keys = early_keys
        self._brokers_listener = brokers_listener
        self._open: dict[RequestConnection, None] = {}
        self._closing: dict[RequestConnection, int] = {}  # and the tick at which that was seen
        self._count_by_host: dict[str, int] = {}
        self._sweep_timer: TimerEntry | None = None
        self._shared: ConnectionShared | None = None
        self._is_open = False
        self._emptied = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[RequestConnection]:
        return iter(list(self._open))

    def serve(self, shared: ConnectionShared) -> None:
        """Begin to sweep."""
        self._shared = shared
        self._schedule_sweep()

    def open(self) -> None:
        """The broker is ready: serve all requests, also of the connections that came early."""
        self._is_open = True
        for connection in list(self._open):
            connection.serve_all()

    def factory(self, listener: str, security_protocol: str) -> Callable[[], RequestConnection]:
        """For `Network.listen`."""
        assert self._shared is not None, "serve comes first"
        shared = self._shared
        return lambda: RequestConnection(shared, listener, security_protocol)

    # --- called by connections ---

    def admit(self, connection: RequestConnection) -> str | None:
        assert connection.client is not None
        host = connection.client.peer.host
        limits = self.limits
        is_full = len(self._open) >= limits.max_connections
        if is_full and not self._is_a_brokers(connection):
            return f"too many connections: max.connections={limits.max_connections}"
        count = self._count_by_host.get(host, 0)
        allowed = limits.per_ip_overrides.get(host, limits.max_connections_per_ip)
        if count >= allowed:
            return f"too many connections from one address: max.connections.per.ip={allowed}"
        if is_full:
            self._make_room()
        self._count_by_host[host] = count + 1
        self._open[connection] = None
        if not self._is_open:
            connection.serve_only(self._early_keys)
        return None

    def _is_a_brokers(self, connection: RequestConnection) -> bool:
        return connection.client is not None and connection.client.listener == self._brokers_listener

    def _make_room(self) -> None:
        """A broker is admitted above the limit: close the quietest client, unless a connection is being closed already."""
        staying = [each for each in self._open if not each.is_closing]
        if len(staying) < self.limits.max_connections:
            return
        others = (each for each in staying if not self._is_a_brokers(each))
        quietest = min(others, key=lambda each: (each.has_requests, each.active_tick), default=None)
        if quietest is not None:
            quietest.close(f"closed to make room for a broker: max.connections={self.limits.max_connections}")

    def closed(self, connection: RequestConnection) -> None:
        self._closing.pop(connection, None)
        if connection not in self._open:
            return  # it was refused
        del self._open[connection]
        if not self._open:
            self._emptied.set()
        assert connection.client is not None
        host = connection.client.peer.host
        self._count_by_host[host] -= 1
        if not self._count_by_host[host]:
            del self._count_by_host[host]

    # --- called by the broker ---

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that no peer has taken yet, over all connections."""
        return sum(connection.unsent_bytes for connection in self._open)

    def finish_all(self, reason: str) -> None:
        """Close every connection when the requests that have started have their responses."""
        for connection in list(self._open):
            connection.finish(reason)

    async def emptied(self) -> None:
        """Return when no connection is left."""
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    def abort_all(self) -> None:
        for connection in list(self._open):
            connection.abort()

    def stop(self) -> None:
        """No more sweeps."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    @property
    def _sweep_period_ms(self) -> int:
        max_idle_ms = self.limits.max_idle_ms
        if max_idle_ms < 0:
            return LONGEST_SWEEP_PERIOD_MS
        return min(max(max_idle_ms // SWEEPS_PER_IDLE_PERIOD, 1), LONGEST_SWEEP_PERIOD_MS)

    def _schedule_sweep(self) -> None:
        self._sweep_timer = self._timer.schedule(self._sweep_period_ms, self._sweep)

    def _sweep(self) -> None:
        assert self._shared is not None
        self._shared.tick += 1
        tick = self._shared.tick
        idle_sweeps = self.limits.max_idle_ms // self._sweep_period_ms
        broker_wait_sweeps = BROKER_WAIT_MS // self._sweep_period_ms
        short = {budget for budget in (self._shared.budget, self._shared.plain_budget) if budget.waiting_count}
        kept_waiting = short and {one.budget for one in self._open if one.has_waited_for_memory(STALLED_SWEEPS)}
        for connection in list(self._open):
            quiet_sweeps = tick - connection.active_tick
            if connection.is_closing:
                if tick - self._closing.setdefault(connection, tick) >= CLOSING_SWEEPS:
                    connection.abort()
            elif connection.budget in short and quiet_sweeps > STALLED_SWEEPS and connection.is_waiting_for_a_frame:
                connection.close("stopped in the middle of a request while others wait for memory")
            elif connection.budget in kept_waiting and connection.is_slow_sender(STALLED_SWEEPS, broker_wait_sweeps):
                connection.close("sends a request too slowly while others wait for memory")
            elif connection.waits_for_broker and quiet_sweeps > broker_wait_sweeps:
                connection.close("a request waited too long for the broker to be ready")
            elif 0 <= idle_sweeps < quiet_sweeps and not connection.has_requests:
                connection.close("idle for connections.max.idle.ms", level=logging.INFO)
        self._schedule_sweep()
