"""DeleteRecords (key 21): move a partition's start, so that what lies before it is gone.

Behaviour: offset -1 means the high watermark; an offset past it, or below -1, is OFFSET_OUT_OF_RANGE; a topic that is only
compacted answers POLICY_VIOLATION, an internal one INVALID_TOPIC_EXCEPTION. The answer carries the new low watermark.
Source: KIP-107; Kafka ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader.
"""

from __future__ import annotations

from broker.context import RequestContext
from broker.dispatch import handles
from broker.handlers.partition_lookup import led_partition
from metadata.image import is_internal
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UP_TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@handles(DeleteRecordsRequest)
async def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    topics: list[DeleteRecordsTopicResult] = []
    for topic in request.topics:
        rows = [await _delete(topic.name, row, context) for row in topic.partitions]
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


async def _delete(topic: str, row: DeleteRecordsPartition, context: RequestContext) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = await _delete_records(topic, row, context)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=row.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
        )
    return DeleteRecordsPartitionResult(
        partition_index=row.partition_index, low_watermark=low_watermark, error_code=ErrorCode.NONE
    )


async def _delete_records(topic: str, row: DeleteRecordsPartition, context: RequestContext) -> int:
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
    low_watermark = partition.log.delete_records(offset)
    partition.truncated()
    return low_watermark
