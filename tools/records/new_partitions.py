"""Partitions that a topic gets while it is read.

Rules: a look every few seconds, and nobody waits for its answer; one that fails is repeated. Partitions that are new are read
from their beginning.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from tools.cluster import Cluster

LOOK_EVERY_MS = 5_000


class NewPartitions:
    def __init__(self, cluster: Cluster, topic: str, known: int) -> None:
        """`known` is how many the topic has now."""
        self._cluster = cluster
        self._topic = topic
        self._known = known
        self._looked_ms = cluster.clock.monotonic_ms()
        self._answer: Future[Any] | None = None

    def found(self) -> list[int]:
        """Return the partitions that have come since the last call."""
        if self._answer is None:
            now_ms = self._cluster.clock.monotonic_ms()
            if now_ms - self._looked_ms >= LOOK_EVERY_MS:
                self._looked_ms = now_ms
                self._answer = self._cluster.admin.describe_topics(TopicCollection([self._topic]))[self._topic]
            return []
        if not self._answer.done():
            return []
        answer, self._answer = self._answer, None
        try:
            count = len(answer.result().partitions)
        except KafkaException:  # the next look may succeed
            return []
        added = list(range(self._known, count))
        self._known = max(self._known, count)
        return added
