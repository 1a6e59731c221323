"""Internal topics: created on demand, and written and read by coordinators as ordinary partitions of this broker.

Rules: one append path for clients and coordinators. A coordinator has loaded when all that it has read is committed: state from
uncommitted records could be lost with this broker, and be missing on the next one.
Source: Kafka AutoTopicCreationManager, GroupMetadataManager.appendForGroup and doLoadGroupsAndOffsets (which reads to the end
of the log and serves at once; KRaft's new coordinator hides what is behind the high watermark).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from metadata.admin.metadata_wait import wait_for_image
from metadata.image import SHARE_GROUP_STATE_TOPIC
from protocol.errors import ErrorCode, KafkaError
from protocol.records.any_format import iter_any_headers
from replication.waiting.delayed_operation import DelayedOperation
from storage.log import log_replacement
from storage.log.producers.transaction_verifications import VerificationGuard

if TYPE_CHECKING:
    from metadata.admin.topic_admin import TopicAdmin
    from metadata.features import CurrentLevels
    from metadata.image import MetadataCache
    from replication.partition import Partition
    from replication.partitions import Partitions
    from runtime.clock import Clock
    from runtime.disk.filesystem import Buffer
    from runtime.tasks import TaskScope

LOST = -1
# The acks of a coordinator whose records must be on every in-sync replica.
ACKS_ALL = -1
# A read that fails, because the log is being moved to another directory or because of its disk, is retried as a client would:
# a coordinator that failed to load does not serve until its partition has another leader.
READ_ATTEMPTS = 3
READ_RETRY_PAUSE_S = 0.01
IMAGE_TIMEOUT_MS = 10_000
"""For how long the cluster image may lack brokers that the controller has seen; they may be gone again."""


class InternalTopics:
    """Creates internal topics when they are first needed, or when the controller says so. It says so of that of share groups in
    every cluster; it is created only where there can be such groups."""

    def __init__(
        self, topic_admin: TopicAdmin, metadata: MetadataCache, features: CurrentLevels, tasks: TaskScope
    ) -> None:
        self._topic_admin = topic_admin
        self._metadata = metadata
        self._features = features
        self._tasks = tasks
        self._under_way: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Start to create `topic`, unless that is in progress. Returns immediately; `TopicAdmin` logs what it waits for."""
        if topic not in self._under_way:
            self._under_way.add(topic)
            self._tasks.spawn(self._create(topic), name=f"create {topic}")

    def create_on(self, topics: Sequence[str], brokers: frozenset[int]) -> None:
        """Start to create `topics` for the controller of this broker, which has just seen `brokers`: replicas are placed on
        those that the cluster image has, so the image must have them first."""
        has_shares = self._features.levels.share > 0
        wanted = [topic for topic in topics if has_shares or topic != SHARE_GROUP_STATE_TOPIC]
        if wanted:
            self._tasks.spawn(self._create_on(wanted, brokers), name="create internal topics")

    async def _create_on(self, topics: Sequence[str], brokers: frozenset[int]) -> None:
        await wait_for_image(self._metadata, lambda image: brokers <= image.brokers.keys(), IMAGE_TIMEOUT_MS)
        for topic in topics:
            self.ensure(topic)

    async def _create(self, topic: str) -> None:
        try:
            await self._topic_admin.auto_create([topic])
        finally:
            self._under_way.discard(topic)


class InternalLog:
    """The partitions of one internal topic. Implements `ShardLogWriter` and `ShardLogReader`."""

    def __init__(self, topic: str, partitions: Partitions, clock: Clock, *, acks: int, read_bytes: int) -> None:
        self.topic = topic
        self._partitions = partitions
        self._clock = clock
        self._acks = acks
        self._read_bytes = read_bytes

    def append(
        self,
        partition: int,
        batch: Buffer,
        committed: Callable[[ErrorCode, int], None],
        guard: object | None = None,
    ) -> int:
        target = self._led(partition)
        assert guard is None or isinstance(guard, VerificationGuard)
        result = target.append_own(bytearray(batch), acks=self._acks, now_ms=self._clock.wall_ms(), guard=guard)
        end_offset = result.last_offset + 1

        def on_result(error: ErrorCode) -> None:
            committed(error, end_offset if error == ErrorCode.NONE else LOST)

        if target.is_committed(end_offset):
            on_result(ErrorCode.NONE)
        else:
            target.own_waiters().when_committed(end_offset, on_result)
        return result.base_offset

    def delete_records(self, partition: int, offset: int) -> None:
        """Delete the records below `offset`, which its coordinator no longer needs. Nothing when this broker does not lead the
        partition any more, or the log begins later."""
        target = self._partitions.find(self.topic, partition)
        if target is not None and target.is_leader and offset > target.log.log_start_offset:
            target.delete_records(offset)

    async def batches(self, partition: int) -> AsyncIterator[Buffer]:
        target = self._led(partition)
        log = target.log
        offset, end_offset = log.log_start_offset, log.log_end_offset
        attempts_left = READ_ATTEMPTS
        while offset < end_offset:
            if self._led(partition) is not target:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{partition} has another leader now.")
            log = target.log  # it may be moved to another directory meanwhile
            try:
                chunk = log.reading.read(offset, limit_offset=end_offset, max_bytes=self._read_bytes, at_least_one=True)
                if chunk is None:
                    chunk = await log.reading.read_cold(
                        offset, limit_offset=end_offset, max_bytes=self._read_bytes, at_least_one=True
                    )
            except KafkaError as error:
                if offset < log.log_start_offset:
                    offset = log.log_start_offset  # the records at `offset` were deleted
                    continue
                attempts_left -= not log_replacement.is_buffering(
                    log
                )  # while another log replaces it, its files have no names
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or log.failure is not None or not attempts_left:
                    raise
                await asyncio.sleep(READ_RETRY_PAUSE_S)
                continue
            whole_bytes = 0
            for position, header in iter_any_headers(chunk):
                whole_bytes = position + header.size_bytes
                offset = header.next_offset
            if whole_bytes == 0:
                break  # only offsets without records remain
            yield memoryview(chunk)[:whole_bytes]
        await self._committed(target, end_offset)

    async def _committed(self, target: Partition, end_offset: int) -> None:
        """Wait until everything below `end_offset` is committed. Raises KafkaError when the leadership ends first."""
        if target.is_committed(end_offset):
            return
        outcomes: list[ErrorCode] = []
        operation = DelayedOperation[None](lambda _wait, error: outcomes.append(error))
        operation.wait_until_committed(target, end_offset, None)
        await operation.completed()
        [error] = outcomes
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"This broker no longer leads {self.topic}-{target.partition}.")

    def _led(self, index: int) -> Partition:
        partition = self._partitions.find(self.topic, index)
        if partition is None or not partition.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {self.topic}-{index}.")
        return partition
