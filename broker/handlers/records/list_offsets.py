"""ListOffsets (key 2): the first and last offsets of a partition, and offsets by timestamp.

Behaviour: special timestamps -1 (latest), -2 (earliest), -3 (of the largest timestamp, v7), -4 (earliest local, v8), -5 (last
tiered, v9) and -6 (earliest that is not tiered yet, v11); nothing is tiered here, so there are none of the last two, and the
timeout of v10 is not needed. "Latest" is the high watermark, at read_committed the last stable offset, for a replica or a
debugging consumer (which may also ask a follower) the log end. Until the high watermark has reached the start of the leader's
epoch, "latest" is OFFSET_NOT_AVAILABLE: the offset could be lower than in an earlier response. Versions below 5 do not have
that error, and get LEADER_NOT_AVAILABLE, which clients retry. v0 returns a list of segment boundaries.
Rights: the response does not show whether a topic exists that the client may not describe.
Source: KIP-79, 207, 396, 405, 734; Kafka Partition.fetchOffsetForTimestamp, legacyFetchOffsetsForTimestamp,
UnifiedLog.legacyFetchOffsetsBefore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, Protocol

from broker.handlers.partition_lookup import held_partition
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.topic_partition import TopicPartition
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each

if TYPE_CHECKING:
    from replication.partition import Partition
    from runtime.clock import Clock

# The request version from which a special timestamp is supported.
SPECIAL_TIMESTAMPS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

LEADER_EPOCH_VERSION = 4
NOT_AVAILABLE_VERSION = 5
CONSUMER = -1
DEBUGGING_CONSUMER = -2
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NONE_FOUND = -1


class _Search(Protocol):
    """Completes a row of the response after the other rows are there."""

    async def fill(self) -> None: ...


@handles(
    ListOffsetsRequest,
    on_each(Operation.DESCRIBE, ResourceType.TOPIC),
    errors=ErrorForm({"topics": "topics"}, timestamp=-1),
)
async def list_offsets(
    request: ListOffsetsRequest, context: RequestContext, may_describe: Rights
) -> ListOffsetsResponse:
    services = context.services
    rows_count = sum(len(topic.partitions) for topic in request.topics)
    topics: list[ListOffsetsTopicResponse] = []
    searches: list[_Search] = []
    async with services.serial_queue.begin(rows_count) as slices:
        if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
            return await _refused(request, ErrorCode.INVALID_REQUEST, slices)
        asked = await _asked(request, slices) if context.api_version > 0 else Counter()
        async for topic in slices.over(request.topics):
            rows: list[ListOffsetsPartitionResponse] = []
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
            async for row in slices.over(topic.partitions):
                try:
                    if not may_describe(topic.name):
                        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    if asked[topic.name, row.partition_index] > 1:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
                    rows.append(_answer(request, topic.name, row, context, searches))
                except KafkaError as error:
                    rows.append(_error_row(row.partition_index, error))
    async for search in Slices(services.clock).over(searches):
        await search.fill()
    return ListOffsetsResponse(topics=topics)


async def _asked(request: ListOffsetsRequest, slices: Slices) -> Counter[TopicPartition]:
    """Count how often each partition is named."""
    asked: Counter[TopicPartition] = Counter()
    async for topic in slices.over(request.topics):
        async for row in slices.over(topic.partitions):
            asked[topic.name, row.partition_index] += 1
    return asked


def _error_row(index: int, error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)


async def _refused(request: ListOffsetsRequest, error: ErrorCode, slices: Slices) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=error)
                    async for row in slices.over(topic.partitions)
                ],
            )
            async for topic in slices.over(request.topics)
        ]
    )


def _answer(
    request: ListOffsetsRequest,
    topic: str,
    row: ListOffsetsPartition,
    context: RequestContext,
    searches: list[_Search],
) -> ListOffsetsPartitionResponse:
    """Return the row of a partition. If the log must be searched, that is added to `searches` and completes it later."""
    version = context.api_version
    if row.timestamp < 0 and SPECIAL_TIMESTAMPS.get(row.timestamp, version + 1) > version:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"Timestamp {row.timestamp} means nothing in version {version}."
        )
    partition = held_partition(context.services, topic, row.partition_index)
    if request.replica_id == DEBUGGING_CONSUMER:
        partition.assignment.check_epoch(row.current_leader_epoch, topic, row.partition_index)
    else:
        partition.check_leader(row.current_leader_epoch)
    answer = ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=ErrorCode.NONE)
    if version == 0:
        if row.max_num_offsets < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{row.max_num_offsets} offsets cannot be answered.")
        searches.append(_BoundarySearch(request, partition, row, context.services.clock, answer))
        return answer
    end_offset = _end_offset(request, partition)
    offset, epoch = NONE_FOUND, -1
    log = partition.log
    if row.timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset, epoch = log.log_start_offset, log.epochs.epoch_of(log.log_start_offset)
    elif row.timestamp == LATEST:
        if _lags_behind_epoch(request, partition):
            raise KafkaError(_not_available(version), "The high watermark has yet to reach this leader's epoch.")
        offset, epoch = end_offset, partition.assignment.leader_epoch
    elif row.timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        searches.append(_TimeSearch(request, partition, row.timestamp, end_offset, version, answer))
    _fill(answer, -1, offset, epoch, version)
    return answer


def _end_offset(request: ListOffsetsRequest, partition: Partition) -> int:
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    return partition.readable_end(read_committed=request.isolation_level == READ_COMMITTED)


def _lags_behind_epoch(request: ListOffsetsRequest, partition: Partition) -> bool:
    """Whether a consumer could get a lower end offset than before."""
    leader = partition.leader
    is_consumer = request.replica_id == CONSUMER
    return is_consumer and leader is not None and partition.log.high_watermark < leader.epoch_start_offset


def _not_available(version: int) -> ErrorCode:
    """Return the version's error for an end offset that is not known yet."""
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= NOT_AVAILABLE_VERSION else ErrorCode.LEADER_NOT_AVAILABLE


def _fill(answer: ListOffsetsPartitionResponse, timestamp: int, offset: int, epoch: int, version: int) -> None:
    answer.timestamp, answer.offset = timestamp, offset
    answer.leader_epoch = epoch if version >= LEADER_EPOCH_VERSION else -1


@dataclass(slots=True)
class _TimeSearch:
    """Searches the log for the offset of a timestamp."""

    request: ListOffsetsRequest
    partition: Partition
    timestamp: int
    end_offset: int
    version: int
    answer: ListOffsetsPartitionResponse

    async def fill(self) -> None:
        log = self.partition.log
        lags_behind_epoch = _lags_behind_epoch(self.request, self.partition)
        try:
            if self.timestamp == MAX_TIMESTAMP:
                found = await log.reading.offset_of_max_timestamp()
            else:
                found = await log.reading.offset_for_timestamp(self.timestamp)
        except KafkaError as error:
            self.answer.error_code = error.code
            return
        if found is not None and found.offset < self.end_offset:
            _fill(self.answer, found.timestamp, found.offset, found.leader_epoch, self.version)
        elif lags_behind_epoch:
            self.answer.error_code = _not_available(self.version)


@dataclass(slots=True)
class _BoundarySearch:
    """v0: reads the modification times of segments from the disk."""

    request: ListOffsetsRequest
    partition: Partition
    row: ListOffsetsPartition
    clock: Clock
    answer: ListOffsetsPartitionResponse

    async def fill(self) -> None:
        log, row = self.partition.log, self.row
        start_offset, end_offset, high_watermark = log.log_start_offset, log.log_end_offset, log.high_watermark
        try:
            times = await log.reading.segment_times()
        except KafkaError as error:
            self.answer.error_code = error.code
            return
        boundaries = [(max(base_offset, start_offset), time_ms) for base_offset, time_ms in times]
        if times[-1][0] < end_offset:
            boundaries.append((end_offset, self.clock.wall_ms()))
        offsets = _offsets_before(boundaries, row.timestamp, row.max_num_offsets)
        if self.request.replica_id == CONSUMER and offsets and offsets[0] > high_watermark:
            offsets = [high_watermark, *dropwhile(lambda offset: offset > high_watermark, offsets)]
        self.answer.old_style_offsets = offsets


def _offsets_before(boundaries: Sequence[tuple[int, int]], timestamp: int, max_num_offsets: int) -> list[int]:
    """Return the offsets of the boundaries up to `timestamp`, in descending order; `boundaries` are ascending (offset, ms)."""
    if timestamp == LATEST:
        count = len(boundaries)
    elif timestamp == EARLIEST:
        count = 1
    else:
        count = len(boundaries)
        while count and boundaries[count - 1][1] > timestamp:
            count -= 1
    return [offset for offset, _ in reversed(boundaries[max(count - max_num_offsets, 0) : count])]
