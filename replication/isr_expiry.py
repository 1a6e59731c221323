"""Looks at each led partition, again and again, whether a follower has fallen too far behind.

Rules: one task a broker; every half of replica.lag.time.max.ms, so that a follower leaves the ISR after one and a half
times that at the latest. The event loop goes on between batches of partitions.
Source: Kafka ReplicaManager.maybeShrinkIsr ("isr-expiration").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from replication.partition import Partition

BATCH = 200


async def expire_lagging_replicas(
    partitions: Callable[[], Iterable[Partition]], lag_max_ms: int, now_ms: Callable[[], int]
) -> None:
    """Runs until cancelled."""
    while True:
        await asyncio.sleep(lag_max_ms / 2000)
        for count, partition in enumerate(list(partitions()), start=1):
            partition.on_tick(now_ms())
            if count % BATCH == 0:
                await asyncio.sleep(0)
