"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch in this leader's log, for clients and followers that
truncate.

Behaviour: an unknown epoch gets epoch -1, offset -1; the current epoch gets the log end offset (for consumers and replicas, as
in Kafka).
Rights: on the cluster for all topics (brokers), or on each.
Source: KIP-101, 279, 320; Kafka Partition.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from broker.handlers.partition_lookup import led_partition
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from security.access import Operation, ResourceType, on_each


@handles(
    OffsetForLeaderEpochRequest,
    on_each(Operation.DESCRIBE, ResourceType.TOPIC, or_on_cluster=Operation.CLUSTER_ACTION),
    errors=ErrorForm({"topics": "topics"}, leader_epoch=-1),
)
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext, may_describe: Rights
) -> OffsetForLeaderEpochResponse:

    def answer(topic: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
        if not may_describe(topic):
            return EpochEndOffset(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=row.partition)
        try:
            partition = led_partition(context.services, topic, row.partition, row.current_leader_epoch)
        except KafkaError as error:
            return EpochEndOffset(error_code=error.code, partition=row.partition)
        epoch, end_offset = partition.log.epochs.end_offset_for(row.leader_epoch)
        return EpochEndOffset(
            error_code=ErrorCode.NONE, partition=row.partition, leader_epoch=epoch, end_offset=end_offset
        )

    rows_count = sum(len(topic.partitions) for topic in request.topics)
    async with context.services.serial_queue.begin(rows_count) as slices:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[answer(topic.topic, row) async for row in slices.over(topic.partitions)],
                )
                async for topic in slices.over(request.topics)
            ]
        )
