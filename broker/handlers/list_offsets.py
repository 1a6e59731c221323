"""ListOffsets (key 2): where a partition begins and ends, and which offset belongs to a time.

Behaviour: special timestamps -1 (latest), -2 (earliest), -3 (of the largest timestamp, v7), -4 (earliest local, v8) and
-5 (last tiered, v9; always none here). "Latest" is the high watermark, at read_committed the last stable offset, for a
replica the log end. Until the high watermark has reached the start of the leader's epoch, "latest" is
OFFSET_NOT_AVAILABLE: an older answer would go back in time. v0 answers a list of segment boundaries.
Source: KIP-79, 207, 396, 405, 734; Kafka Partition.fetchOffsetForTimestamp, UnifiedLog.legacyFetchOffsetsBefore.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.context import RequestContext
from broker.dispatch import handles
from broker.handlers.partition_lookup import led_partition
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from replication.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
# The request version from which a special timestamp is known.
SPECIAL_TIMESTAMPS = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

LEADER_EPOCH_VERSION = 4
CONSUMER = -1
DEBUGGING_CONSUMER = -2
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NONE_FOUND = -1


@handles(ListOffsetsRequest)
async def list_offsets(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        return _refused(request, ErrorCode.INVALID_REQUEST)
    asked = Counter((topic.name, row.partition_index) for topic in request.topics for row in topic.partitions)
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        rows: list[ListOffsetsPartitionResponse] = []
        for row in topic.partitions:
            try:
                if asked[topic.name, row.partition_index] > 1 and context.api_version > 0:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
                rows.append(await _answer(request, topic.name, row, context))
            except KafkaError as error:
                rows.append(ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=error.code))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


def _refused(request: ListOffsetsRequest, error: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=error)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _answer(
    request: ListOffsetsRequest, topic: str, row: ListOffsetsPartition, context: RequestContext
) -> ListOffsetsPartitionResponse:
    version = context.api_version
    if row.timestamp < 0 and SPECIAL_TIMESTAMPS.get(row.timestamp, version + 1) > version:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"Timestamp {row.timestamp} means nothing in version {version}."
        )
    partition = led_partition(context.services, topic, row.partition_index, row.current_leader_epoch)
    end_offset = _end_offset(request, partition)
    if version == 0:
        offsets = _segment_offsets(partition, row, end_offset)
        return ListOffsetsPartitionResponse(
            partition_index=row.partition_index, error_code=ErrorCode.NONE, old_style_offsets=offsets
        )
    timestamp, offset, epoch = await _find(partition, row.timestamp, end_offset, is_replica=request.replica_id >= 0)
    return ListOffsetsPartitionResponse(
        partition_index=row.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if version >= LEADER_EPOCH_VERSION else -1,
    )


def _end_offset(request: ListOffsetsRequest, partition: Partition) -> int:
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    return partition.readable_end(read_committed=request.isolation_level == READ_COMMITTED)


async def _find(partition: Partition, timestamp: int, end_offset: int, *, is_replica: bool) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch), each -1 where there is none."""
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_of(log.log_start_offset)
    if timestamp == LATEST_TIERED:
        return -1, NONE_FOUND, -1
    leader = partition.leader
    lags_behind_epoch = not is_replica and leader is not None and log.high_watermark < leader.epoch_start_offset
    if timestamp == LATEST:
        if lags_behind_epoch:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "The high watermark has yet to reach this leader's epoch.")
        return -1, end_offset, partition.leader_epoch
    if timestamp == MAX_TIMESTAMP:
        found = await log.offset_of_max_timestamp()
    else:
        found = await log.offset_for_timestamp(timestamp)
    if found is not None and found.offset < end_offset:
        return found.timestamp, found.offset, found.leader_epoch
    if lags_behind_epoch:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "The high watermark has yet to reach this leader's epoch.")
    return -1, NONE_FOUND, -1


def _segment_offsets(partition: Partition, row: ListOffsetsPartition, end_offset: int) -> list[int]:
    """v0: starts of segments last written before the time, newest first, behind them the end when it counts."""
    log = partition.log
    boundaries = [(base_offset, mtime_ms) for base_offset, mtime_ms in log.segment_times() if base_offset < end_offset]
    if row.timestamp == EARLIEST:
        offsets = [max(log.log_start_offset, boundaries[0][0] if boundaries else log.log_start_offset)]
    else:
        offsets = [
            max(base_offset, log.log_start_offset)
            for base_offset, mtime_ms in reversed(boundaries)
            if row.timestamp == LATEST or mtime_ms <= row.timestamp
        ]
        if row.timestamp == LATEST:
            offsets.insert(0, end_offset)
    return offsets[: max(row.max_num_offsets, 0)]
