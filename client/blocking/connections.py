"""The connections of one client: one for each broker, opened when it is needed, and kept.

Rules: a broker that was not reached is left alone for a while, which grows with its failures. The first attempt at a broker
is a short one: others can be asked instead.
Source: Kafka ClusterConnectionStates; `reconnect.backoff.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from client.attempts import FIRST_ANSWER_S
from client.backoff import Backoff
from client.blocking.attempts import Surroundings
from client.blocking.connection import BrokerConnection
from client.cluster_view import Address
from client.settings.values import ClientSettings

Connect = Callable[..., BrokerConnection]
"""Is called with host, port, settings, and `first_s` and `most_s` of `BrokerConnection`."""


class _Failed(NamedTuple):
    """How often in a row a broker was not reached, and until when it is left alone."""

    failures: int
    until_s: float


class Connections:
    """Those of one client."""

    def __init__(self, settings: ClientSettings, surroundings: Surroundings, connect: Connect | None) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._connect = connect or self._system_connect
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        self._open: dict[Address, BrokerConnection] = {}
        self._failed: dict[Address, _Failed] = {}
        self._attempted: set[Address] = set()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def to(self, address: Address, most_s: float) -> BrokerConnection:
        """Return a connection. Raises OSError, LoginRefused, SettingsError; after FIRST_ANSWER_S in a first attempt."""
        connection = self.kept(address)
        if connection is None:
            failed = self._failed.get(address)
            if failed is not None:
                left_s = failed.until_s - self._surroundings.clock()
                self._surroundings.sleep(max(0.0, min(left_s, most_s)))
            first_s = most_s if address in self._attempted else min(most_s, FIRST_ANSWER_S)
            self._attempted.add(address)
            try:
                connection = self.new(address, first_s, most_s)
            except OSError:
                self.failed(address)
                raise
            self.keep(address, connection)
        return connection

    def new(self, address: Address, first_s: float, most_s: float) -> BrokerConnection:
        """Return a connection that is not kept; any thread may call this. Raises as `to`."""
        return self._connect(*address, self._settings, first_s=first_s, most_s=most_s)

    def kept(self, address: Address) -> BrokerConnection | None:
        """Return the connection that there is."""
        connection = self._open.get(address)
        if connection is not None and not connection.is_usable:
            self.drop(address)
            return None
        return connection

    def keep(self, address: Address, connection: BrokerConnection) -> None:
        self._open[address] = connection
        self._failed.pop(address, None)
        self._attempted.discard(address)

    def drop(self, address: Address) -> None:
        """Close a connection that failed; the next use opens another one."""
        connection = self.let_go(address)
        if connection is not None:
            connection.close()

    def let_go(self, address: Address) -> BrokerConnection | None:
        """Keep a connection no more, which another thread still uses."""
        return self._open.pop(address, None)

    def address_of(self, connection: BrokerConnection) -> Address | None:
        """Return whose connection it is, None when it is not kept."""
        return next((address for address, each in self._open.items() if each is connection), None)

    def failed(self, address: Address) -> None:
        """Note that a broker was not reached."""
        before = self._failed.get(address)
        failures = 1 if before is None else before.failures + 1
        pause_s = self._backoff.pause_ms(failures, self._surroundings.randomness) / 1000
        self._failed[address] = _Failed(failures, self._surroundings.clock() + pause_s)

    def candidates(self, known: Iterable[Address]) -> list[Address]:
        """Return whom to ask first, and who follows: brokers with an open connection, then others of the cluster, then those
        given at the start; those last that were not reached."""
        others = list(known)
        self._surroundings.randomness.shuffle(others)  # spreads clients over brokers; nothing depends on the order
        everyone = dict.fromkeys([*self._open, *others, *self._settings.servers])
        return sorted(everyone, key=lambda address: address in self._failed)

    def _system_connect(
        self, host: str, port: int, settings: ClientSettings, *, first_s: float, most_s: float
    ) -> BrokerConnection:
        return BrokerConnection(
            host,
            port,
            settings,
            first_s=first_s,
            most_s=most_s,
            clock=self._surroundings.clock,
            sleep=self._surroundings.sleep,
            randomness=self._surroundings.randomness,
        )
