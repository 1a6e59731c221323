"""How far the groups of this broker's coordinator are behind, measured again and again.

Every `barnabas.lag.interval.ms` the commits of all groups are read first and then the ends of their partitions, which are the
high watermarks: from the log where this broker leads, else from the leader by ListOffsets. So no lag is negative. A leader that
does not answer within an interval leaves the lag unknown (None), not zero; so does one that was just elected and does not know
yet what is committed. The age is that of the record at the committed offset, or of the first one behind it that is still there:
its timestamp is taken from its batch, which is read once for each offset at which a group waits. What a lag counts, as in
Kafka's tools, need not be there: records that were deleted or compacted away, and the marker that ends a transaction, which is
no record. A group that has nothing before it that it could read has read all, so its age is 0 and its status that of a group
without lag.
Of a share group the lag is what it is not done with: share coordinators tell where its partitions begin, and how much is done
behind that. They are asked for as long as an interval; what they do not tell by then has no lag. Share groups have no status.
Rules: measures are made in slices of the loop's time; one request a leader is under way. Nothing is kept of groups and
partitions that are deleted, nor shown of groups whose coordinator has moved.
Source: Kafka ConsumerGroupCommand (lag), Burrow (status).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from coordinator.group.commit_window import WINDOW_COMMITS, CommitWindow, GroupStatus
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.records.batch import DELETE_HORIZON_BIT, HEADER_BYTES, BatchHeader, magic_at
from runtime.slices import Slices

if TYPE_CHECKING:
    from client.event_loop.broker_client import BrokerClient
    from config.inter_broker_version import InterBrokerVersion
    from coordinator.group.offsets import CommittedOffset
    from coordinator.group.share.state_keeping import Place, ShareSummary
    from coordinator.group_coordinator import GroupCoordinator
    from metadata.image import ClusterImage, MetadataCache
    from protocol.topic_partition import TopicPartition
    from replication.partition import Partition
    from replication.partitions import Partitions
    from runtime.clock import Clock
    from runtime.disk.filesystem import Buffer
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

CONSUMER = -1
NO_EPOCH = -1
UNNAMED_TOPICS_VERSION = 12
"""The newest version of Fetch that names topics."""
BATCHES_PER_ROUND = 20
"""Batches read from one other broker in a round: each may have a megabyte."""
EMPTY_BATCHES_PER_ROUND = 20
"""Batches without records, such as markers, of one partition that are passed in a round; each takes a read."""
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


class _Place(NamedTuple):
    """Where a group waits: a topic that was created again is another one."""

    offset: int
    topic_id: bytes


class _SharePosition(NamedTuple):
    """Where a share partition begins, and how many records behind that are done."""

    offset: int
    done_count: int


class GroupLag:
    """`start` once, then `close` once."""

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
        self._limit_ms = interval_ms or None  # of one request: a broker that hangs delays a round, and not all rounds
        self._clients: dict[int, BrokerClient] = {}
        self._windows: dict[Key, CommitWindow] = {}
        self._timestamps: dict[Key, tuple[_Place, int]] = {}
        self._passed: dict[Key, tuple[_Place, int]] = {}
        """Offsets up to which no record is behind a place."""
        self._lags: list[MeasuredLag] = []
        self._statuses: dict[str, GroupStatus] = {}

    def latest(self) -> tuple[list[MeasuredLag], dict[str, GroupStatus]]:
        """Return what the last round has measured of the groups that this broker still coordinates."""
        statuses = {group: status for group, status in self._statuses.items() if self._groups.coordinates(group)}
        gone = {each.group_id for each in self._lags if not self._groups.coordinates(each.group_id)}
        if not gone:
            return self._lags, statuses
        return [each for each in self._lags if each.group_id not in gone], statuses

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
            for topic_partition, each in committed.items():
                if each.offset >= 0:  # below are values by which clients mean none
                    commits[group_id, topic_partition] = each
            await slices.yield_if_due()
        shares = await self._share_positions()
        offsets = {key: each.offset for each_kind in (commits, shares) for key, each in each_kind.items()}
        ends = await self._offsets({topic_partition for _, topic_partition in offsets}, LATEST)
        await slices.yield_if_due()
        behind = [key for key, offset in offsets.items() if ends.get(key[1], 0) > offset]
        starts = await self._offsets({topic_partition for _, topic_partition in behind}, EARLIEST)
        image = self._metadata.image
        places = {
            key: _Place(max(offsets[key], starts[key[1]]), image.topic_id(key[1][0]))
            for key in behind
            if key[1] in starts
        }
        await self._read_timestamps(places, ends)
        now_ms = self._clock.wall_ms()
        windows: dict[Key, CommitWindow] = {}
        lags: list[MeasuredLag] = []
        statuses: dict[str, GroupStatus] = {}
        for key, commit in commits.items():
            group_id, topic_partition = key
            end = ends.get(topic_partition)
            lag = None if end is None else max(end - commit.offset, 0)
            unread = 0 if self._is_read(key, places, end) else lag
            lags.append(MeasuredLag(group_id, topic_partition, lag, self._age_ms(key, unread, now_ms)))
            window = windows[key] = self._windows.get(key) or CommitWindow(WINDOW_COMMITS * self._interval_ms)
            window.measure(now_ms, commit.commit_timestamp_ms, commit.offset, unread)
            status = window.status(now_ms, unread)
            statuses[group_id] = max(statuses.get(group_id, GroupStatus.OK), status)
            await slices.yield_if_due()
        for key, position in shares.items():
            end = ends.get(key[1])
            lag = None if end is None else max(end - position.offset - position.done_count, 0)
            unread = 0 if self._is_read(key, places, end) else lag
            lags.append(MeasuredLag(*key, lag, self._age_ms(key, unread, now_ms)))
            await slices.yield_if_due()
        self._windows, self._lags, self._statuses = windows, lags, statuses

    async def _share_positions(self) -> dict[Key, _SharePosition]:
        """Return where the partitions of share groups are, as far as that is told within an interval."""
        found: dict[Key, _SharePosition] = {}
        names = self._metadata.image.names_by_id
        try:
            async with asyncio.timeout(None if self._limit_ms is None else self._limit_ms / 1000):
                for group_id in self._groups.share_group_ids():
                    for (topic_id, partition), summary in (await self._summaries(group_id)).items():
                        name = names.get(topic_id)
                        if name is None or isinstance(summary, ErrorCode):
                            continue
                        if summary.start_offset >= 0 and summary.delivery_complete_count >= 0:
                            position = _SharePosition(summary.start_offset, summary.delivery_complete_count)
                            found[group_id, (name, partition)] = position
        except TimeoutError:
            logger.debug("lag of share groups not known, share coordinators do not answer in time")
        return found

    async def _summaries(self, group_id: str) -> Mapping[Place, ShareSummary | ErrorCode]:
        try:
            return await self._groups.shares.summaries(group_id, self._groups.shares.initialized(group_id))
        except KafkaError:  # it was deleted, or has another coordinator
            return {}

    def _is_read(self, key: Key, places: Mapping[Key, _Place], end: int | None) -> bool:
        """Return whether a group has nothing before it that it could read."""
        return end is not None and key in places and (places[key].offset >= end or self._is_passed(key, end))

    def _is_passed(self, key: Key, end: int) -> bool:
        """Return whether no record is between the place of a group and the end."""
        return key in self._passed and self._passed[key][1] >= end

    def _age_ms(self, key: Key, lag: int | None, now_ms: int) -> int | None:
        if not lag:
            return lag
        known = self._timestamps.get(key)
        return None if known is None else max(now_ms - known[1], 0)

    # --- offsets ---

    async def ends_of(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermarks as they are now, without those that are unknown."""
        return await self._offsets(topic_partitions, LATEST)

    async def _offsets(self, topic_partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Return the high watermarks (LATEST) or the log start offsets (EARLIEST), without those that are unknown."""
        found: dict[TopicPartition, int] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        slices = Slices(self._clock)
        for topic_partition in topic_partitions:
            partition = self._partitions.find(*topic_partition)
            if partition is not None and partition.leader is not None:
                log = partition.log
                if timestamp == EARLIEST:
                    found[topic_partition] = log.log_start_offset
                # Before that it may be lower than it was at the leader before.
                elif log.high_watermark >= partition.leader.epoch_start_offset:
                    found[topic_partition] = log.high_watermark
            else:
                leader = self._leader_elsewhere(topic_partition)
                if leader != self._broker_id:
                    elsewhere.setdefault(leader, []).append(topic_partition)
            await slices.yield_if_due()
        answers = await asyncio.gather(
            *(self._offsets_at(leader, asked, timestamp) for leader, asked in elsewhere.items())
        )
        for answer in answers:
            found |= answer
        return found

    async def _offsets_at(self, leader: int, asked: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Ask another broker; what it does not answer, or answers with an error, is left out."""
        found: dict[TopicPartition, int] = {}
        for start in range(0, len(asked), PARTITIONS_PER_REQUEST):
            topics: dict[str, ListOffsetsTopic] = {}
            for name, index in asked[start : start + PARTITIONS_PER_REQUEST]:
                topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
                topic.partitions.append(
                    ListOffsetsPartition(
                        partition_index=index, current_leader_epoch=NO_EPOCH, timestamp=timestamp, max_num_offsets=1
                    )
                )
            request = ListOffsetsRequest(replica_id=CONSUMER, topics=list(topics.values()))
            try:
                response = await self._client(leader).send(
                    request, self._version.list_offsets, ListOffsetsResponse, timeout_ms=self._limit_ms
                )
            except OSError as error:
                logger.debug("offsets of partitions not known: broker=%d error=%s", leader, error)
                break
            for answered in response.topics:
                for row in answered.partitions:
                    if row.error_code == ErrorCode.NONE:
                        offset = row.old_style_offsets[0] if row.old_style_offsets else row.offset
                        found[answered.name, row.partition_index] = offset
        return found

    # --- timestamps ---

    async def _read_timestamps(self, places: dict[Key, _Place], ends: dict[TopicPartition, int]) -> None:
        """Find the timestamps of the records at which groups wait, unless they are known."""
        kept = {
            key
            for key, place in places.items()
            if key not in self._passed or (self._passed[key][0] == place and self._passed[key][1] <= ends[key[1]])
        }  # the others wait elsewhere, or their log was cut
        self._passed = {key: passed for key, passed in self._passed.items() if key in kept}
        self._timestamps = {
            key: known for key, known in self._timestamps.items() if key in kept and places[key] == known[0]
        }
        left_of_leader: dict[int, int] = {}
        slices = Slices(self._clock)
        for key, place in places.items():
            end = ends[key[1]]
            if place.offset >= end or key in self._timestamps or self._is_passed(key, end):
                continue
            offset = self._passed[key][1] if key in self._passed else place.offset
            for _ in range(EMPTY_BATCHES_PER_ROUND):
                batch = await self._batch(key[1], offset, end, left_of_leader)
                if batch is None:
                    break
                if batch and not holds_no_record(batch):
                    timestamp = timestamp_in(batch, offset)
                    if timestamp is not None:
                        self._timestamps[key] = place, timestamp
                    break
                offset = BatchHeader(batch).last_offset + 1 if batch else end
                self._passed[key] = place, offset
                if offset >= end:
                    break
            await slices.yield_if_due()

    async def _batch(
        self, topic_partition: TopicPartition, offset: int, end: int, left_of_leader: dict[int, int]
    ) -> Buffer | None:
        """Return the batch that holds an offset, or the next one; nothing when there is none up to `end`, and None when it
        cannot be had in this round. `left_of_leader` are the requests that other brokers may still get."""
        partition = self._partitions.find(*topic_partition)
        if partition is not None and partition.leader is not None:
            return await self._batch_here(partition, offset, end)
        leader = self._leader_elsewhere(topic_partition)
        left = left_of_leader.get(leader, BATCHES_PER_ROUND)
        if leader == self._broker_id or not left:
            return None
        left_of_leader[leader] = left - 1
        try:
            return await self._batch_at(leader, topic_partition, offset, end)
        except OSError as error:
            logger.debug("record not read: broker=%d error=%s", leader, error)
            left_of_leader[leader] = 0  # it would let the round wait again
            return None

    def _leader_elsewhere(self, topic_partition: TopicPartition) -> int:
        """Return the leader of a partition that another broker leads, else this broker's id."""
        found = self._metadata.image.partition(*topic_partition)
        is_known = found is not None and found.leader in self._metadata.image.brokers
        return found.leader if found is not None and is_known else self._broker_id

    async def _batch_here(self, partition: Partition, offset: int, end: int) -> Buffer | None:
        """As `_batch`."""
        log = partition.log
        if log.high_watermark < end:  # it was cut, or this broker has just become its leader
            return None
        limits = {"limit_offset": log.high_watermark, "max_bytes": 1}
        try:
            batch = log.reading.read(offset, **limits, at_least_one=True)
            if batch is None:
                batch = await log.reading.read_cold(offset, **limits, at_least_one=True)
        except KafkaError:  # it was deleted meanwhile, or the disk has failed, which the log tells
            return None
        return batch

    async def _batch_at(self, leader: int, topic_partition: TopicPartition, offset: int, end: int) -> Buffer | None:
        """As `_batch`. Raises OSError when the leader does not answer."""
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
        response = await self._client(leader).send(request, version, FetchResponse, timeout_ms=self._limit_ms)
        rows = [row for topic in response.responses for row in topic.partitions]
        if not rows or rows[0].error_code != ErrorCode.NONE:
            return None
        # A leader that a quota holds back sends no records, and one that has just been elected may know fewer.
        is_complete = not response.throttle_time_ms and rows[0].high_watermark >= end
        return rows[0].records or (b"" if is_complete else None)

    # --- other brokers ---

    def _client(self, broker_id: int) -> BrokerClient:
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self._connect(broker_id)
        return client

    def _on_image(self, image: ClusterImage) -> None:
        for broker_id in self._clients.keys() - image.brokers.keys():
            self._clients.pop(broker_id).close()


def holds_no_record(batch: Buffer) -> bool:
    """Return whether a buffer begins with a marker, or with a batch whose records were all compacted away."""
    if len(batch) < HEADER_BYTES or magic_at(batch) != MAGIC_V2:
        return False
    header = BatchHeader(batch)
    return header.is_control or not header.records_count


def timestamp_in(batch: Buffer, offset: int) -> int | None:
    """Return the timestamp of the record at `offset` in the batch at the start of a buffer: exact for the first and the last
    record, between them as if they had come evenly. None for what is no batch of format v2, and for records without one."""
    if len(batch) < HEADER_BYTES or magic_at(batch) != MAGIC_V2:
        return None
    header = BatchHeader(batch)
    first_ms, last_ms = header.base_timestamp, header.max_timestamp
    if header.is_log_append_time or header.attributes & DELETE_HORIZON_BIT or not header.last_offset_delta:
        return last_ms if last_ms >= 0 else None
    if first_ms < 0:
        return None
    place = min(max(offset - header.base_offset, 0), header.last_offset_delta)
    return first_ms + max(last_ms - first_ms, 0) * place // header.last_offset_delta
