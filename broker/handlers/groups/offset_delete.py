"""OffsetDelete (key 47): remove offsets of partitions that the group does not consume.

Behaviour: topics and partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, and the others are removed; an error
of the group is that of the response, without rows.
Rights: on the group for the whole request, then on each topic.
Source: Kafka KafkaApis.handleOffsetDeleteRequest; KIP-496.
"""

from __future__ import annotations

from broker.handlers.groups.offset_rows import rows_for_coordinator, rows_of_response
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from security.access import Operation, ResourceType, on_each, on_named


def _results(request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> list[tuple[str, int]]:
    return [
        (f"{request.group_id} {topic.name}-{row.partition_index}", row.error_code)
        for topic in response.topics
        for row in topic.partitions
    ]


@handles(
    OffsetDeleteRequest,
    (on_named(Operation.DELETE, ResourceType.GROUP, "group_id"), on_each(Operation.READ, ResourceType.TOPIC)),
    audit=audit(Operation.DELETE, "OFFSET", "topics.partitions", _results),
)
async def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext, may_read: Rights
) -> OffsetDeleteResponse:
    services = context.services
    rows_count = sum(len(topic.partitions) for topic in request.topics)
    async with services.serial_queue.begin(rows_count) as slices:
        known = await rows_for_coordinator(request.topics, may_read, services.metadata.image, slices)
    to_coordinator = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    response = await services.groups.delete_offsets(to_coordinator)
    if response.error_code != ErrorCode.NONE:
        return response
    async with services.serial_queue.begin(rows_count) as slices:
        make_topic, make_row = OffsetDeleteResponseTopic, OffsetDeleteResponsePartition
        response.topics = await rows_of_response(
            request.topics, response.topics, may_read, make_topic, make_row, slices
        )
    return response
