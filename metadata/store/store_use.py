"""What a client of the store measures: how long its requests take, and how often it has authenticated.

Source: Kafka ZooKeeperClient (ZooKeeperRequestLatencyMs), its session state handler.
"""

from __future__ import annotations

from runtime.distribution import Distribution


class StoreUse:
    """Over all sessions of a store. `latencies` are in ns, from sending a request to its response; the embedded store has
    none."""

    __slots__ = ("authentication_failures_count", "authentications_count", "latencies")

    def __init__(self) -> None:
        self.latencies = Distribution()
        self.authentications_count = self.authentication_failures_count = 0
