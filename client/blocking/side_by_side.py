"""Brokers that are asked side by side, each on a thread of its own, while one thread waits for all of them.

Rules: who hangs costs the others nothing: it is abandoned when the time is over, and its thread closes what it used.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from client.blocking.connection import BrokerConnection


class BrokerOutcome(NamedTuple):
    """`connection` is None when there is none. `value` is a response, or what was raised."""

    broker_id: int
    connection: BrokerConnection | None
    value: Any


class Round:
    """One question to each of some brokers."""

    def __init__(self) -> None:
        self._asked: dict[int, BrokerConnection | None] = {}
        self._finished: queue.SimpleQueue[BrokerOutcome] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The brokers that have not finished."""
        return tuple(self._asked)

    def task(
        self,
        broker_id: int,
        kept: BrokerConnection | None,
        connect: Callable[[], BrokerConnection],
        ask: Callable[[BrokerConnection], Any],
    ) -> Callable[[], None]:
        """Return what asks a broker on some thread, over `kept` if it is there."""
        self._asked[broker_id] = kept

        def run() -> None:
            connection, value = kept, None
            try:
                connection = connection or connect()
                value = ask(connection)
            except BaseException as error:  # noqa: BLE001  whoever waits looks at it
                value = error
            self._finish(BrokerOutcome(broker_id, connection, value))

        return run

    def next(self, timeout_s: float) -> BrokerOutcome | None:
        """Return who finishes next; None when nobody does in time."""
        try:
            found = self._finished.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        del self._asked[found.broker_id]
        return found

    def abandon(self) -> list[int]:
        """Wait no more; return who has not finished."""
        with self._lock:
            self._is_over = True
        while not self._finished.empty():
            _close(self._finished.get().connection)
        for connection in self._asked.values():
            if connection is not None:
                connection.abort()
        return list(self._asked)

    def _finish(self, outcome: BrokerOutcome) -> None:
        with self._lock:
            if not self._is_over:
                self._finished.put(outcome)
                return
        _close(outcome.connection)


def _close(connection: BrokerConnection | None) -> None:
    if connection is not None:
        connection.close()
