"""How far the groups of this broker's coordinator are behind, measured again and again.

Every `barnabas.lag.interval.ms` the commits of all groups are read first and then the ends of their partitions: from the log
where this broker leads, else from the leader by ListOffsets. So no lag is negative. A leader that does not answer leaves the
lag unknown (None), not zero. The age is that of the record at the committed offset: its timestamp is taken from its batch,
which is read once for each offset at which a group waits.
Rules: measures are made in slices of the loop's time; one request a leader is under way. Nothing is kept of groups and
partitions that are gone.
Source: Kafka ConsumerGroupCommand (lag), Burrow (status).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.group.commit_window import CommitWindow, GroupStatus
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.records.batch import DELETE_HORIZON_BIT, HEADER_BYTES, BatchHeader, magic_at
from runtime.slices import Slices

if TYPE_CHECKING:
    from config.inter_broker_version import InterBrokerVersion
    from coordinator.group.offsets import CommittedOffset
    from coordinator.group_coordinator import GroupCoordinator
    from metadata.image import ClusterImage, MetadataCache
    from protocol.broker_client import BrokerClient
    from protocol.topic_partition import TopicPartition
    from replication.partitions import Partitions
    from runtime.clock import Clock
    from runtime.filesystem import Buffer
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

LATEST = -1
CONSUMER = -1
NO_EPOCH = -1
UNNAMED_TOPICS_VERSION = 12
"""The newest version of Fetch that names topics."""
BATCHES_PER_ROUND = 20
"""Batches read from one other broker in a round: each may have a megabyte."""
PARTITIONS_PER_REQUEST = 1_000
MAGIC_V2 = 2

Key = tuple[str, "TopicPartition"]


@dataclass(frozen=True, slots=True)
class MeasuredLag:
    """Of one group and partition. Unknown values are None; `age_ms` is 0 without a lag."""

    group_id: str
    topic_partition: TopicPartition
    lag: int | None
    age_ms: int | None


class GroupLag:
    """`start` once, then `close` once. `lags` and `statuses` are those of the last round, and not changed afterwards."""

    def __init__(
        self,
        broker_id: int,
        groups: GroupCoordinator,
        partitions: Partitions,
        metadata: MetadataCache,
        connect: Callable[[int], BrokerClient],
        *,
        version: InterBrokerVersion,
        clock: Clock,
        tasks: TaskScope,
        interval_ms: int,
    ) -> None:
        """`connect` makes a client of another broker. An interval of 0 measures nothing."""
        self._broker_id = broker_id
        self._groups = groups
        self._partitions = partitions
        self._metadata = metadata
        self._connect = connect
        self._version = version
        self._clock = clock
        self._tasks = tasks
        self._interval_ms = interval_ms
        self._clients: dict[int, BrokerClient] = {}
        self._windows: dict[Key, CommitWindow] = {}
        self._timestamps: dict[Key, tuple[int, int]] = {}  # of the record at an offset: (offset, timestamp)
        self.lags: list[MeasuredLag] = []
        self.statuses: dict[str, GroupStatus] = {}

    def start(self) -> None:
        if self._interval_ms:
            self._metadata.subscribe(self._on_image)
            self._tasks.spawn(self._run(), name="measure the lag of groups")

    def close(self) -> None:
        if self._interval_ms:
            self._metadata.unsubscribe(self._on_image)
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            await self.measure()

    async def measure(self) -> None:
        """Measure all groups once."""
        slices = Slices(self._clock)
        commits: dict[Key, CommittedOffset] = {}
        for group_id, committed in self._groups.committed_offsets():
            commits |= {(group_id, topic_partition): each for topic_partition, each in committed.items()}
            await slices.yield_if_due()
        ends = await self._ends({topic_partition for _, topic_partition in commits})
        behind = {key: each.offset for key, each in commits.items() if (ends.get(key[1]) or 0) > each.offset}
        await self._read_timestamps(behind)
        now_ms = self._clock.wall_ms()
        windows: dict[Key, CommitWindow] = {}
        lags: list[MeasuredLag] = []
        statuses: dict[str, GroupStatus] = {}
        for key, commit in commits.items():
            group_id, topic_partition = key
            end = ends.get(topic_partition)
            lag = None if end is None else max(end - commit.offset, 0)
            lags.append(MeasuredLag(group_id, topic_partition, lag, self._age_ms(key, commit.offset, lag, now_ms)))
            window = windows[key] = self._windows.get(key) or CommitWindow()
            window.measure(commit.commit_timestamp_ms, commit.offset, lag)
            status = window.status(now_ms, lag)
            statuses[group_id] = max(statuses.get(group_id, GroupStatus.OK), status)
            await slices.yield_if_due()
        self._windows, self.lags, self.statuses = windows, lags, statuses

    def _age_ms(self, key: Key, offset: int, lag: int | None, now_ms: int) -> int | None:
        if not lag:
            return lag
        known = self._timestamps.get(key)
        return max(now_ms - known[1], 0) if known is not None and known[0] == offset else None

    # --- ends ---

    async def _ends(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the high watermarks; None where the leader does not answer."""
        ends: dict[TopicPartition, int | None] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for topic_partition in topic_partitions:
            partition = self._partitions.find(*topic_partition)
            found = self._metadata.image.partition(*topic_partition)
            if partition is not None and partition.is_leader:
                ends[topic_partition] = partition.log.high_watermark
            elif found is not None and found.leader in self._metadata.image.brokers:
                elsewhere.setdefault(found.leader, []).append(topic_partition)
        answers = await asyncio.gather(*(self._ends_at(leader, asked) for leader, asked in elsewhere.items()))
        for answer in answers:
            ends |= answer
        return ends

    async def _ends_at(self, leader: int, asked: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        ends: dict[TopicPartition, int | None] = {}
        for start in range(0, len(asked), PARTITIONS_PER_REQUEST):
            topics: dict[str, ListOffsetsTopic] = {}
            for name, index in asked[start : start + PARTITIONS_PER_REQUEST]:
                topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
                topic.partitions.append(
                    ListOffsetsPartition(
                        partition_index=index, current_leader_epoch=NO_EPOCH, timestamp=LATEST, max_num_offsets=1
                    )
                )
            request = ListOffsetsRequest(replica_id=CONSUMER, topics=list(topics.values()))
            try:
                response = await self._client(leader).send(request, self._version.list_offsets, ListOffsetsResponse)
            except OSError as error:
                logger.debug("ends of partitions not known: broker=%d error=%s", leader, error)
                break
            for answered in response.topics:
                for row in answered.partitions:
                    if row.error_code == ErrorCode.NONE:
                        offset = row.old_style_offsets[0] if row.old_style_offsets else row.offset
                        ends[answered.name, row.partition_index] = offset
        return ends

    # --- timestamps ---

    async def _read_timestamps(self, behind: dict[Key, int]) -> None:
        """Find the timestamps of the records at which groups wait, unless they are known."""
        self._timestamps = {key: known for key, known in self._timestamps.items() if behind.get(key) == known[0]}
        left_of_leader: dict[int, int] = {}
        for key, offset in behind.items():
            if key in self._timestamps:
                continue
            timestamp = await self._timestamp_here(key[1], offset)
            if timestamp is None:
                leader = self._leader_elsewhere(key[1])
                left = left_of_leader.get(leader, BATCHES_PER_ROUND)
                if leader == self._broker_id or not left:
                    continue
                left_of_leader[leader] = left - 1
                timestamp = await self._timestamp_at(leader, key[1], offset)
            if timestamp is not None:
                self._timestamps[key] = offset, timestamp

    def _leader_elsewhere(self, topic_partition: TopicPartition) -> int:
        """Return the leader of a partition that another broker leads, else this broker's id."""
        found = self._metadata.image.partition(*topic_partition)
        is_known = found is not None and found.leader in self._metadata.image.brokers
        return found.leader if found is not None and is_known else self._broker_id

    async def _timestamp_here(self, topic_partition: TopicPartition, offset: int) -> int | None:
        partition = self._partitions.find(*topic_partition)
        if partition is None or not partition.is_leader:
            return None
        log = partition.log
        limits = {"limit_offset": log.high_watermark, "max_bytes": 1}
        try:
            batch = log.read(offset, **limits, at_least_one=True)
            if batch is None:
                batch = await log.read_cold(offset, **limits, at_least_one=True)
        except KafkaError:  # it was deleted meanwhile, or the disk has failed, which the log tells
            return None
        return timestamp_in(batch, offset)

    async def _timestamp_at(self, leader: int, topic_partition: TopicPartition, offset: int) -> int | None:
        name, index = topic_partition
        wanted = FetchPartition(
            partition=index,
            current_leader_epoch=NO_EPOCH,
            fetch_offset=offset,
            log_start_offset=-1,
            partition_max_bytes=1,
        )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            topics=[FetchTopic(topic=name, partitions=[wanted])],
        )
        version = min(self._version.fetch, UNNAMED_TOPICS_VERSION)
        try:
            response = await self._client(leader).send(request, version, FetchResponse)
        except OSError as error:
            logger.debug("record not read: broker=%d error=%s", leader, error)
            return None
        rows = [row for topic in response.responses for row in topic.partitions]
        return timestamp_in(rows[0].records or b"", offset) if rows else None

    # --- other brokers ---

    def _client(self, broker_id: int) -> BrokerClient:
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self._connect(broker_id)
        return client

    def _on_image(self, image: ClusterImage) -> None:
        for broker_id in self._clients.keys() - image.brokers.keys():
            self._clients.pop(broker_id).close()


def timestamp_in(batch: Buffer, offset: int) -> int | None:
    """Return the timestamp of the record at `offset` in the batch at the start of a buffer: exact for the first and the last
    record, between them as if they had come evenly. None for what is no batch of format v2."""
    if len(batch) < HEADER_BYTES or magic_at(batch) != MAGIC_V2:
        return None
    header = BatchHeader(batch)
    first_ms, last_ms = header.base_timestamp, header.max_timestamp
    if header.is_log_append_time or header.attributes & DELETE_HORIZON_BIT or not header.last_offset_delta:
        return last_ms
    place = min(max(offset - header.base_offset, 0), header.last_offset_delta)
    return first_ms + max(last_ms - first_ms, 0) * place // header.last_offset_delta
