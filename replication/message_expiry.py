"""Deletes expired records of the partitions that this broker leads (`barnabas.message.ttl.ms`).

Every second the log start of each such partition moves to its first batch that has not expired, as by DeleteRecords: up to the
high watermark at most, also over records of open transactions. Followers take the log start over with their next fetch; the
checkpoint keeps it over a restart. Retention removes the segments, some time later.

Rules: runs on the event loop. There is no task, and no work, while no partition that is led here has the setting. A look at a
partition costs two comparisons while its oldest batch is too young; else what is read grows with what has expired.
Invariants: only a leader deletes; records of internal topics, and of topics that are only compacted, stay.
Source: ours; KIP-107 for what is deleted. A timestamp decides, as in Kafka's retention by time, by the wall clock.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from metadata.image import is_internal
from protocol.errors import KafkaError
from protocol.topic_partition import TopicPartition
from replication.leader import LeaderState
from replication.partition import Partition
from runtime.clock import Clock
from runtime.slices import Slices
from runtime.tasks import TaskScope
from storage.log.removal.expired_batches import find_expired

logger = logging.getLogger(__name__)

INTERVAL_MS = 1_000
UNREADABLE_PAUSE_MS = 60_000


@dataclass(slots=True)
class _Looked:
    """How far a partition was looked at in the term of `leader`. `next_offset` and `next_ms`: see `ExpiredBatches`."""

    partition: Partition
    leader: LeaderState | None = None
    next_offset: int = 0
    next_ms: int | None = None
    pauses_until_ms: int = 0
    """Monotonic."""


class MessageExpiry:
    """Expires records. Implements `replication.partitions.LeadershipListener`."""

    def __init__(self, clock: Clock, tasks: TaskScope) -> None:
        self._clock = clock
        self._tasks = tasks
        self._looked: dict[TopicPartition, _Looked] = {}
        self._is_running = False

    def __len__(self) -> int:
        """Return how many partitions are looked at."""
        return len(self._looked)

    def on_leader(self, partition: Partition) -> None:
        self.on_config_changed(partition)

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None:
        self._looked.pop((topic, partition), None)

    def on_config_changed(self, partition: Partition) -> None:
        """Look at the partition from now on, or no more, as the settings of its topic say."""
        log = partition.log
        if not partition.is_leader or log.config.ttl_ms is None or is_internal(partition.topic):
            self._looked.pop(log.key, None)
            return
        known = self._looked.get(log.key)
        if known is None or known.partition is not partition:
            self._looked[log.key] = _Looked(partition)
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), name="message expiry")

    async def _run(self) -> None:
        try:
            while self._looked:
                await asyncio.sleep(INTERVAL_MS / 1000)
                await self.expire()
        finally:
            self._is_running = False

    async def expire(self) -> None:
        """Delete what has expired by now."""
        slices = Slices(self._clock)
        async for looked in slices.over(list(self._looked.values())):
            if self._is_due(looked):
                await self._expire(looked, slices)

    def _is_due(self, looked: _Looked) -> bool:
        """Whether there may be an expired batch."""
        partition = looked.partition
        log, leader = partition.log, partition.leader
        ttl_ms = log.config.ttl_ms
        if leader is None or ttl_ms is None:
            return False
        if looked.leader is not leader or not log.log_start_offset <= looked.next_offset <= log.high_watermark:
            looked.leader, looked.next_offset, looked.next_ms = leader, log.log_start_offset, None
        if looked.next_ms is None:
            has_more = looked.next_offset < log.high_watermark
        else:
            has_more = looked.next_ms < self._clock.wall_ms() - ttl_ms
        return has_more and self._clock.monotonic_ms() >= looked.pauses_until_ms

    async def _expire(self, looked: _Looked, slices: Slices) -> None:
        partition, leader, log = looked.partition, looked.leader, looked.partition.log
        config, start_offset = log.config, log.log_start_offset
        ttl_ms = config.ttl_ms
        assert ttl_ms is not None
        try:
            found = await find_expired(
                log.reading.reader,
                slices,
                start_offset=looked.next_offset,
                limit_offset=log.high_watermark,
                before_ms=self._clock.wall_ms() - ttl_ms,
            )
        except KafkaError as error:
            is_as_before = partition.leader is leader and partition.log is log
            if is_as_before and log.log_start_offset == start_offset:  # else it may be retention that removed the file
                looked.pauses_until_ms = self._clock.monotonic_ms() + UNREADABLE_PAUSE_MS
                log.reading.log_unreadable(error, looked.next_offset)
            return
        if partition.leader is not leader or partition.log.config is not config:
            return  # what was found counts no more
        looked.next_offset, looked.next_ms = found.next_offset, found.next_ms
        if found.end_offset > partition.log.log_start_offset:
            partition.expire(found.end_offset)
            logger.debug(
                "expired records deleted: topic=%s partition=%d start_offset=%d",
                partition.topic, partition.partition, found.end_offset,
            )  # fmt: skip
