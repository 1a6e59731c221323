"""How fast connections may be made: of the broker, of each listener, and of each address. Pure.

    max.connection.creation.rate                           of all listeners but the one that brokers have for themselves
    listener.name.<listener>.max.connection.creation.rate  of one listener
    connection_creation_rate of ips/<address>              of one address; ips/<default> for those without one

Above the first two the listener accepts no more for a while, and the connection that was one too many waits as long. Above the
third this connection is closed after its throttle time, and is not counted.

Rules: no IO; time is passed. A throttle time is at most a window.
Invariant: the number of addresses whose rate is kept is bounded (`broker.network.quotas.client_quota`).
Source: KIP-402, KIP-612; Kafka ConnectionQuotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.network.quotas.client_quota import ClientQuota, Windows
from metadata.client_quotas import ADDRESS_KINDS, QuotaEntity, QuotaKind, quotas_in
from runtime.sampled_rates import WindowedRate

NO_RATE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Connections a second; those of listeners by name."""

    of_broker: int = NO_RATE
    of_listeners: Mapping[str, int] = field(default_factory=dict)


class ConnectionRates:
    """The rates of one broker. `limits` may be changed while it runs. `protected_listener` is the one that brokers have for
    themselves."""

    def __init__(self, windows: Windows, addresses_max: int, *, protected_listener: str | None = None) -> None:
        self.limits = RateLimits()
        self._windows = windows
        self._protected_listener = protected_listener
        self._of_broker = WindowedRate(*windows)
        self._of_listeners: dict[str, WindowedRate] = {}
        # A limit of an address is kept as that of a user: both have a default and nothing else.
        self._of_addresses = ClientQuota(windows, addresses_max)
        self.delays_ms: dict[str, int] = {}
        """For how long each listener accepted no connections, in all."""
        self.throttled_addresses = 0
        """How many connections were closed because of their address."""

    def apply_entity(self, path: str, settings: Mapping[str, str]) -> None:
        """Apply the settings of an address. Fits `EntityListener`."""
        entity = QuotaEntity.of_path(path)
        if entity is not None and entity.address is not None:
            limit = quotas_in(settings, ADDRESS_KINDS).get(QuotaKind.CONNECTION)
            self._of_addresses.limit(QuotaEntity(user=entity.address), limit)

    def accepted(self, listener: str, now_ms: int) -> int:
        """Count a connection; return for how long its listener may accept no other, in milliseconds."""
        delay_ms = 0
        if listener != self._protected_listener:
            self._of_broker.record(1, now_ms)
            delay_ms = self._throttle_ms(self._of_broker, self.limits.of_broker, now_ms)
        rate = self._of_listeners.get(listener)
        if rate is None:
            rate = self._of_listeners[listener] = WindowedRate(*self._windows)
        rate.record(1, now_ms)
        delay_ms = max(delay_ms, self._throttle_ms(rate, self.limits.of_listeners.get(listener, NO_RATE), now_ms))
        if delay_ms:
            self.delays_ms[listener] = self.delays_ms.get(listener, 0) + delay_ms
        return delay_ms

    def address_throttle_ms(self, address: str, now_ms: int) -> int:
        """Count a connection from an address, unless it is one too many; return after how long that one is closed."""
        if not self._of_addresses.is_on:
            return 0
        rate = self._of_addresses.rate_of(address, "", now_ms)
        throttle_ms = min(rate.record(1, now_ms), self._windows.window_ms)
        if throttle_ms:
            rate.take_back(1, now_ms)
            self.throttled_addresses += 1
        return throttle_ms

    def _throttle_ms(self, rate: WindowedRate, limit: int, now_ms: int) -> int:
        return 0 if limit == NO_RATE else min(rate.throttle_ms(limit, now_ms), self._windows.window_ms)

    # --- metrics ---

    def broker_rate(self, now_ms: int) -> float:
        """Return the connections a second of all listeners but the protected one."""
        return self._of_broker.per_second(now_ms)

    def listener_rates(self, now_ms: int) -> dict[str, float]:
        return {listener: rate.per_second(now_ms) for listener, rate in self._of_listeners.items()}
