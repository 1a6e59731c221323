"""The open connections of a broker: their limits, and the end of idle ones.

Rules: no IO of its own. Until `open`, connections are accepted and served only what makes the broker ready. `max.connections`
and `max.connections.per.ip` (with overrides by address) are checked when a connection is open: one too many is closed
immediately with a log line. Brokers that come by a listener of their own are admitted above `max.connections`; for each, the
connection of a client is closed that has been quiet for the longest. One timer sweeps over all connections. A connection
is idle when for `connections.max.idle.ms` (give or take a sweep) nothing came from it, it took nothing of a response, and no
request of it runs; one that
stops in the middle of a request while others wait for the memory that it has reserved is closed much sooner. When a request has
waited long, so are those whose request comes so slowly that their client will have given up before it is complete.
A listener at which connections are made faster than its rate, or the broker's, is paused
(`broker.network.quotas.connection_rates`); the connections of an address that makes them too fast are closed a while later, and
count nowhere.
Invariants: the counts are those of the connections that were admitted and are not closed.
Source: Kafka SocketServer.Acceptor, ConnectionQuotas, Selector.IdleExpiryManager; KIP-402.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.network.connections.connection import RequestConnection
from broker.network.connections.connection_shared import ConnectionShared
from broker.network.quotas.connection_rates import ConnectionRates, RateLimits

if TYPE_CHECKING:
    from runtime.network.transport import Listener
    from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

NO_LIMIT = 2**31 - 1
# So many connections at a time wait for the end of their throttle time, to be closed; more are closed immediately.
DELAYED_MAX = 1_000
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
    max_by_listener: Mapping[str, int] = field(default_factory=dict)
    rates: RateLimits = field(default_factory=RateLimits)


class Acceptor:
    """The open connections. `shared` is set by `serve`, which comes before the first connection. Until `open`, only
    requests of `early_keys` are served; the others wait. `brokers_listener` is the one that brokers have for themselves."""

    def __init__(
        self,
        timer: Timer,
        limits: AcceptLimits | None = None,
        *,
        early_keys: frozenset[int] = frozenset(),
        brokers_listener: str | None = None,
        rates: ConnectionRates | None = None,
    ) -> None:
        self._rates = rates
        self.refused_count = 0
        """How many connections were closed because of a limit."""
        self._limits = limits or AcceptLimits()
        self._listeners: dict[str, Listener] = {}
        self._resuming: dict[str, TimerEntry] = {}  # of the listeners that are paused
        self._count_by_listener: dict[str, int] = {}
        self._admitted_by_listener: dict[str, int] = {}
        self._delayed: dict[RequestConnection, TimerEntry] = {}  # they are closed after their throttle time
        self._timer = timer
        self._early_keys = early_keys
        self._brokers_listener = brokers_listener
        self._open: dict[RequestConnection, None] = {}
        self._closing: dict[RequestConnection, int] = {}  # and the tick at which that was seen
        # Unsent bytes of those that had some at a sweep since their last request, and the tick at which they became fewer.
        self._sending: dict[RequestConnection, tuple[int, int]] = {}
        self._count_by_host: dict[str, int] = {}
        self._sweep_timer: TimerEntry | None = None
        self._shared: ConnectionShared | None = None
        self._is_open = False
        self._emptied = asyncio.Event()

    @property
    def limits(self) -> AcceptLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: AcceptLimits) -> None:
        self._limits = limits
        if self._rates is not None:
            self._rates.limits = limits.rates

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
        admit, closed = self.admit, self.closed
        return lambda: RequestConnection(shared, listener, security_protocol, admit, closed)

    def listening(self, name: str, listener: Listener) -> None:
        """A listener is open: it is paused while connections are made too fast."""
        self._listeners[name] = listener

    def apply_entity(self, path: str, settings: Mapping[str, str]) -> None:
        """Apply the settings of an address. Fits `EntityListener`."""
        if self._rates is not None:
            self._rates.apply_entity(path, settings)

    @property
    def rates(self) -> ConnectionRates | None:
        return self._rates

    def counts_by_listener(self) -> dict[str, int]:
        """Return how many connections are open, of listeners that ever had one."""
        return dict(self._count_by_listener)

    def admitted_by_listener(self) -> dict[str, int]:
        """Return how many connections were admitted in all."""
        return dict(self._admitted_by_listener)

    # --- called by connections ---

    def admit(self, connection: RequestConnection) -> str | None:
        """Return why a connection is closed immediately, or None."""
        refusal = self._admit(connection)
        self.refused_count += refusal is not None
        return refusal

    def _admit(self, connection: RequestConnection) -> str | None:
        host, listener = connection.client.peer.host, connection.client.listener
        limits = self._limits
        if self._rates is not None:
            now_ms = self._timer.now_ms()
            delay_ms = self._rates.accepted(listener, now_ms)
            if delay_ms:
                self._pause(listener, delay_ms)
                connection.life.mute(delay_ms)
            throttle_ms = self._rates.address_throttle_ms(host, now_ms)
            if throttle_ms:
                return self._close_later(connection, delay_ms + throttle_ms)
        is_full = len(self._open) >= limits.max_connections
        if is_full and not self._is_a_brokers(connection):
            return f"too many connections: max.connections={limits.max_connections}"
        listener_count = self._count_by_listener.get(listener, 0)
        if listener_count >= limits.max_by_listener.get(listener, NO_LIMIT):
            return f"too many connections of one listener: max.connections={limits.max_by_listener[listener]}"
        count = self._count_by_host.get(host, 0)
        allowed = limits.per_ip_overrides.get(host, limits.max_connections_per_ip)
        if count >= allowed:
            return f"too many connections from one address: max.connections.per.ip={allowed}"
        if is_full:
            self._make_room()
        self._count_by_host[host] = count + 1
        self._count_by_listener[listener] = listener_count + 1
        self._admitted_by_listener[listener] = self._admitted_by_listener.get(listener, 0) + 1
        self._open[connection] = None
        if not self._is_open:
            connection.serve_only(self._early_keys)
        return None

    def _pause(self, name: str, duration_ms: int) -> None:
        """Accept no connection at a listener for so long."""
        listener, before = self._listeners.get(name), self._resuming.pop(name, None)
        if listener is None:
            return
        until = self._timer.schedule(duration_ms, lambda: self._resume(name, listener))
        if before is not None and before.deadline_tick > until.deadline_tick:
            before, until = until, before
        if before is not None:
            before.cancel()
        self._resuming[name] = until
        listener.pause()

    def _resume(self, name: str, listener: Listener) -> None:
        del self._resuming[name]
        listener.resume()

    def _close_later(self, connection: RequestConnection, after_ms: int) -> str | None:
        """Close a connection whose address makes too many after its throttle time, until which it gets no answer."""
        reason = "connections are made too fast from one address: connection_creation_rate"
        if len(self._delayed) >= DELAYED_MAX:
            return reason
        connection.life.mute(after_ms + 1)

        def close() -> None:
            del self._delayed[connection]
            connection.life.close(reason, level=logging.INFO)

        self._delayed[connection] = self._timer.schedule(after_ms, close)
        return None

    def _is_a_brokers(self, connection: RequestConnection) -> bool:
        return connection.client.listener == self._brokers_listener

    def _make_room(self) -> None:
        """A broker is admitted above the limit: close the quietest client, unless a connection is being closed already."""
        staying = [each for each in self._open if not each.is_closing]
        if len(staying) < self.limits.max_connections:
            return
        others = (each for each in staying if not self._is_a_brokers(each))
        quietest = min(others, key=lambda each: (each.has_requests, each.life.active_tick), default=None)
        if quietest is not None:
            quietest.life.close(f"closed to make room for a broker: max.connections={self.limits.max_connections}")

    def closed(self, connection: RequestConnection) -> None:
        self._closing.pop(connection, None)
        self._sending.pop(connection, None)
        if connection not in self._open:  # it was refused
            delayed = self._delayed.pop(connection, None)
            if delayed is not None:
                delayed.cancel()
            return
        del self._open[connection]
        if not self._open:
            self._emptied.set()
        host, listener = connection.client.peer.host, connection.client.listener
        self._count_by_listener[listener] -= 1
        self._count_by_host[host] -= 1
        if not self._count_by_host[host]:
            del self._count_by_host[host]

    # --- called by the broker ---

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that no peer has taken yet, over all connections."""
        return sum(connection.life.unsent_bytes for connection in self._open)

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
        for connection in [*self._open, *self._delayed]:
            connection.life.abort()

    def stop(self) -> None:
        """No more sweeps, and no listener is resumed."""
        for entry in self._resuming.values():
            entry.cancel()
        self._resuming.clear()
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
        kept_waiting = short and {
            one.intake.memory.budget for one in self._open if one.intake.memory.has_waited(STALLED_SWEEPS)
        }
        for connection in list(self._open):
            quiet_sweeps, memory = tick - connection.life.active_tick, connection.intake.memory
            if connection.is_closing:
                if tick - self._closing.setdefault(connection, tick) >= CLOSING_SWEEPS:
                    connection.life.abort()
            elif memory.budget in short and quiet_sweeps > STALLED_SWEEPS and memory.is_waiting_for_a_frame:
                connection.life.close("stopped in the middle of a request while others wait for memory")
            elif memory.budget in kept_waiting and connection.intake.is_slow_sender(STALLED_SWEEPS, broker_wait_sweeps):
                connection.life.close("sends a request too slowly while others wait for memory")
            elif connection.intake.waits_for_broker and quiet_sweeps > broker_wait_sweeps:
                connection.life.close("a request waited too long for the broker to be ready")
            elif (
                quiet_sweeps and 0 <= idle_sweeps < tick - self._last_taken(connection) and not connection.has_requests
            ):
                connection.life.close("idle for connections.max.idle.ms", level=logging.INFO)
        self._schedule_sweep()

    def _last_taken(self, connection: RequestConnection) -> int:
        """Return the tick of the sweep before which a quiet client took something of a response, or sent the last request."""
        unsent_bytes, before = connection.life.unsent_bytes, self._sending.get(connection)
        if before is not None and before[1] < connection.life.active_tick:
            before = None  # of an earlier request
        if before is None:
            if not unsent_bytes:
                self._sending.pop(connection, None)
                return connection.life.active_tick
            before = (unsent_bytes, connection.life.active_tick)
        elif unsent_bytes != before[0]:
            assert self._shared is not None
            before = (unsent_bytes, self._shared.tick if unsent_bytes < before[0] else before[1])
        self._sending[connection] = before
        return before[1]
