"""OffsetDelete (key 47): forget offsets of partitions that the group does not consume.

Behaviour: topics and partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION, and the rest goes on; an
error of the group is the answer's, and then there are no rows at all.
Source: Kafka KafkaApis.handleOffsetDeleteRequest; KIP-496.
"""

from __future__ import annotations

from broker.context import RequestContext
from broker.dispatch import handles
from metadata.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(OffsetDeleteRequest)
async def offset_delete(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    known = _known_topics(request.topics, context.services.metadata.image)
    to_coordinator = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    response = await context.services.groups.delete_offsets(to_coordinator)
    if response.error_code != ErrorCode.NONE:
        return response
    errors = {
        (topic.name, row.partition_index): row.error_code for topic in response.topics for row in topic.partitions
    }
    rows: dict[str, dict[int, OffsetDeleteResponsePartition]] = {}
    for asked in request.topics:
        for partition in asked.partitions:
            index = partition.partition_index
            error = errors.get((asked.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            row = OffsetDeleteResponsePartition(partition_index=index, error_code=error)
            rows.setdefault(asked.name, {})[index] = row
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[
            OffsetDeleteResponseTopic(name=name, partitions=list(of_topic.values())) for name, of_topic in rows.items()
        ],
    )


def _known_topics(topics: list[OffsetDeleteRequestTopic], image: ClusterImage) -> list[OffsetDeleteRequestTopic]:
    known = []
    for topic in topics:
        partitions = [
            partition
            for partition in topic.partitions
            if image.partition(topic.name, partition.partition_index) is not None
        ]
        if partitions:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))
    return known
