"""DeleteRecords (key 21): raise a partition's log start offset, which deletes the records before it.

Behaviour: offset -1 means the high watermark; an offset past it, or below -1, is OFFSET_OUT_OF_RANGE; a topic that is only
compacted gets POLICY_VIOLATION, an internal one INVALID_TOPIC_EXCEPTION. The response has the new low watermark: it is sent
when every live replica has raised its start offset, or after `timeout_ms` with REQUEST_TIMED_OUT.
Source: KIP-107; Kafka ReplicaManager.deleteRecords, DelayedDeleteRecords, Partition.deleteRecordsOnLeader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from broker.handlers.partition_lookup import led_partition
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from metadata.image import is_internal
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from replication.waiting.delayed_operation import DelayedOperation, Wait
from security.access import Operation, ResourceType, on_each

if TYPE_CHECKING:
    from replication.partition import Partition

UP_TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1

_Wait: TypeAlias = Wait[DeleteRecordsPartitionResult]
_Followers: TypeAlias = DelayedOperation[DeleteRecordsPartitionResult]


@handles(
    DeleteRecordsRequest,
    on_each(Operation.DELETE, ResourceType.TOPIC),
    errors=ErrorForm({"topics": "topics"}, low_watermark=-1),
    audit=audit(Operation.DELETE, "PARTITION", "topics.partitions", "topics.partitions"),
)
async def delete_records(
    request: DeleteRecordsRequest, context: RequestContext, may_delete: Rights
) -> DeleteRecordsResponse:
    services = context.services
    rows_count = sum(len(topic.partitions) for topic in request.topics)
    with DelayedOperation(_on_outcome) as followers:
        async with services.serial_queue.begin(rows_count) as slices:
            topics = [
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        _delete(topic.name, row, context, followers)
                        if may_delete(topic.name)
                        else _refused(row, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                        async for row in slices.over(topic.partitions)
                    ],
                )
                async for topic in slices.over(request.topics)
            ]
        await followers.completed(services.timer, request.timeout_ms)
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def _on_outcome(wait: _Wait, error: ErrorCode) -> None:
    """Handle the end of the wait for the followers of one partition."""
    row = wait.subject
    row.error_code = error
    if error != ErrorCode.REQUEST_TIMED_OUT:  # else the row has their current low watermark
        row.low_watermark = wait.partition.low_watermark if error == ErrorCode.NONE else NO_LOW_WATERMARK


def _delete(
    topic: str, row: DeleteRecordsPartition, context: RequestContext, followers: _Followers
) -> DeleteRecordsPartitionResult:
    """Delete records of one partition; return its row, which may have to wait for followers."""
    try:
        partition, offset, low_watermark = _delete_here(topic, row, context)
    except KafkaError as error:
        return _refused(row, error.code)
    answer = DeleteRecordsPartitionResult(
        partition_index=row.partition_index, low_watermark=low_watermark, error_code=ErrorCode.NONE
    )
    if low_watermark < offset:
        followers.wait_until_deleted(partition, offset, answer)
    return answer


def _refused(row: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=row.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=error
    )


def _delete_here(topic: str, row: DeleteRecordsPartition, context: RequestContext) -> tuple[Partition, int, int]:
    """Return (partition, offset that every replica must reach, low watermark). Raises KafkaError."""
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
