"""Notifies the leaders of this broker of other brokers that are not alive any more.

A leader waits, besides for its ISR, for live replicas that are about to join. When such a broker goes, nothing else may ever
tell the partition so: its producers wait for the high watermark, and without it there is nothing that followers could fetch.

Rules: synchronous, in the step in which the new image is published; only partitions with a replica there do anything.
Source: Kafka MetadataCache.hasAliveBroker as Partition.isReplicaIsrEligible asks it; Kafka itself has no such event and waits
for the next fetch that moves, or replica.lag.time.max.ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from metadata.image import ClusterImage
from replication.partition import Partition


class LiveBrokers:
    """Compares images. `on_image` is called with every image of the cluster, in order."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        self._partitions = partitions
        self._broker_ids: frozenset[int] = frozenset()

    def on_image(self, image: ClusterImage) -> None:
        before, self._broker_ids = self._broker_ids, frozenset(image.brokers)
        lost = before - self._broker_ids
        if lost:
            for partition in list(self._partitions()):
                partition.on_brokers_lost(lost)
