"""DeleteRecords (key 21): move a partition's start, so that what lies before it is gone.

Behaviour: offset -1 means the high watermark; an offset past it, or below -1, is OFFSET_OUT_OF_RANGE; a topic that is only
compacted answers POLICY_VIOLATION, an internal one INVALID_TOPIC_EXCEPTION. The answer carries the new low watermark: it
comes when every live replica has moved its start, and after `timeout_ms` with REQUEST_TIMED_OUT where one has not.
Source: KIP-107; Kafka ReplicaManager.deleteRecords, DelayedDeleteRecords, Partition.deleteRecordsOnLeader.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.handlers.partition_lookup import led_partition
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from metadata.image import is_internal
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from replication.partition import Partition
    from runtime.timer import Timer

UP_TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@handles(DeleteRecordsRequest)
async def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    services = context.services
    rows_count = sum(len(topic.partitions) for topic in request.topics)
    followers = _Followers()
    try:
        async with services.serial_queue.begin(rows_count) as slices:
            topics = [
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        _delete(topic.name, row, context, followers) async for row in slices.over(topic.partitions)
                    ],
                )
                async for topic in slices.over(request.topics)
            ]
        await followers.moved(services.timer, request.timeout_ms)
    finally:
        followers.forget()
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


class _Followers:
    """Those that a request waits for. A row says REQUEST_TIMED_OUT as long as its partition's have not moved."""

    def __init__(self) -> None:
        self._tickets: dict[int, tuple[Partition, int]] = {}
        self._moved: asyncio.Future[None] | None = None

    def wait_for(self, partition: Partition, offset: int, row: DeleteRecordsPartitionResult) -> None:
        key = id(row)

        def on_result(error: ErrorCode) -> None:
            del self._tickets[key]
            row.error_code = error
            row.low_watermark = partition.low_watermark if error == ErrorCode.NONE else NO_LOW_WATERMARK
            if not self._tickets:
                self._finish()

        self._tickets[key] = (partition, partition.when_deleted(offset, on_result))

    async def moved(self, timer: Timer, timeout_ms: int) -> None:
        """Return when the followers of all partitions have moved, or at the end of the time."""
        if not self._tickets:
            return
        self._moved = asyncio.get_running_loop().create_future()
        timeout = timer.schedule(max(timeout_ms, 0), self._finish)
        try:
            await self._moved
        finally:
            timeout.cancel()

    def _finish(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)

    def forget(self) -> None:
        """Wait no longer."""
        for partition, ticket in self._tickets.values():
            partition.forget_deletion(ticket)
        self._tickets.clear()


def _delete(
    topic: str, row: DeleteRecordsPartition, context: RequestContext, followers: _Followers
) -> DeleteRecordsPartitionResult:
    """The row of the answer, which may have to wait for followers."""
    try:
        partition, offset, low_watermark = _delete_here(topic, row, context)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=row.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
        )
    answer = DeleteRecordsPartitionResult(
        partition_index=row.partition_index, low_watermark=low_watermark, error_code=ErrorCode.NONE
    )
    if low_watermark < offset:
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        followers.wait_for(partition, offset, answer)
    return answer


def _delete_here(topic: str, row: DeleteRecordsPartition, context: RequestContext) -> tuple[Partition, int, int]:
    """(partition, offset that everybody has to reach, low watermark). Raises KafkaError."""
    if is_internal(topic):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Records of the internal topic {topic} stay.")
    partition = led_partition(context.services, topic, row.partition_index)
    if "delete" not in partition.log.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"Records of {topic} are compacted, not deleted.")
    offset = partition.high_watermark if row.offset == UP_TO_HIGH_WATERMARK else row.offset
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"Offset {row.offset} is not within 0 and {partition.high_watermark}."
        )
    return partition, offset, partition.delete_records(offset)
