"""The counters of authentication, by listener.

Rules: as for all counters: plain ints on the event loop, read at each scrape. A listener has its counters from its first
connection on; there is one event loop, whose number among Kafka's network processors is 0.
Source: Kafka Selector.SelectorMetrics, SocketServer.Processor; KIP-368.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.observability import metric_table as table
from runtime.monitoring.metric import Metric
from runtime.recent_times import RecentTimes

NETWORK_PROCESSOR = "0"


@dataclass(slots=True)
class _ListenerCounters:
    successes: int = 0
    without_reauthentication: int = 0
    failures: int = 0
    reauthentications: int = 0
    failed_reauthentications: int = 0
    killed: int = 0
    latencies: RecentTimes = field(default_factory=RecentTimes)


_METRICS = {
    "successes": table.AUTHENTICATIONS,
    "without_reauthentication": table.AUTHENTICATIONS_FOR_GOOD,
    "failures": table.AUTHENTICATIONS_FAILED,
    "reauthentications": table.REAUTHENTICATIONS,
    "failed_reauthentications": table.REAUTHENTICATIONS_FAILED,
    "killed": table.EXPIRED_CONNECTIONS,
}


class AuthenticationCounters:
    """Implements `broker.network.sasl.authentication.AuthenticationMetrics`."""

    def __init__(self) -> None:
        self._listeners: dict[str, _ListenerCounters] = {}

    def authenticated(self, listener: str, *, knows_lifetime: bool) -> None:
        counters = self._of(listener)
        counters.successes += 1
        counters.without_reauthentication += not knows_lifetime

    def authentication_failed(self, listener: str) -> None:
        self._of(listener).failures += 1

    def reauthenticated(self, listener: str, took_ms: int, now_ms: int) -> None:
        counters = self._of(listener)
        counters.reauthentications += 1
        counters.latencies.record(took_ms, now_ms)

    def reauthentication_failed(self, listener: str) -> None:
        self._of(listener).failed_reauthentications += 1

    def expired_connection_killed(self, listener: str) -> None:
        self._of(listener).killed += 1

    def _of(self, listener: str) -> _ListenerCounters:
        return self._listeners.setdefault(listener, _ListenerCounters())

    @property
    def killed_count(self) -> int:
        """How many connections were closed on all listeners because their sessions were over."""
        return sum(counters.killed for counters in self._listeners.values())

    def values(self, now_ms: int) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
        """Yield the counters with their labels, those of one metric together. Latencies are those of listeners on which
        a client has authenticated again."""
        listeners = list(self._listeners.items())
        for name, metric in _METRICS.items():
            for listener, counters in listeners:
                yield metric, (listener, NETWORK_PROCESSOR), getattr(counters, name)
        again = [(listener, counters.latencies) for listener, counters in listeners if counters.reauthentications]
        for listener, latencies in again:
            yield table.REAUTHENTICATION_AVG, (listener, NETWORK_PROCESSOR), latencies.average_ms(now_ms)
        for listener, latencies in again:
            yield table.REAUTHENTICATION_MAX, (listener, NETWORK_PROCESSOR), latencies.max_ms(now_ms)
