"""Partitions that a topic gets while it is read.

Rules: the topic is asked for every few seconds, on a thread with a client of its own: the reader does not wait. What fails is
asked again. Partitions that are new are read from their beginning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from client.admin.brokers import checked
from client.admin.topics import describe
from client.blocking.cluster_client import ClusterClient
from client.errors import LoginRefused
from protocol.errors import KafkaError
from runtime.clock import Clock
from tools.cluster import Cluster

ASKED_EVERY_MS = 5_000


def _on_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, daemon=True).start()


class NewPartitions:
    def __init__(
        self,
        clock: Clock,
        ask: Callable[[], int],
        known: int,
        start: Callable[[Callable[[], None]], None] = _on_a_thread,
    ) -> None:
        """`known` is how many the topic has now, `ask` asks for it: it raises KafkaError, LoginRefused, OSError. `start` runs a
        function beside the reader."""
        self._clock = clock
        self._ask = ask
        self._start = start
        self._known = self._count = known
        self._asked_ms = clock.monotonic_ms()
        self._is_asked = False

    @classmethod
    def of(cls, cluster: Cluster, topic: str, known: int) -> NewPartitions:
        client = ClusterClient(cluster.settings.client)
        return cls(cluster.clock, lambda: len(checked(client.run(describe([topic])))[topic].partitions), known)

    def found(self) -> list[int]:
        """Return the partitions that have come since the last call."""
        now_ms = self._clock.monotonic_ms()
        if not self._is_asked and now_ms - self._asked_ms >= ASKED_EVERY_MS:
            self._asked_ms, self._is_asked = now_ms, True
            self._start(self._look_up)
        known, self._known = self._known, self._count
        return list(range(known, self._known))

    def _look_up(self) -> None:
        try:
            self._count = max(self._count, self._ask())
        except (KafkaError, LoginRefused, OSError):  # the next attempt may succeed
            pass
        finally:
            self._is_asked = False
