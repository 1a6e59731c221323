"""OffsetDelete (key 47): remove offsets of partitions that the group does not consume.

Behaviour: topics and partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, and the others are removed; an error
of the group is that of the response, without rows.
Rights: on the group for the whole request, then on each topic.
Source: Kafka KafkaApis.handleOffsetDeleteRequest; KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.handlers.partition_lookup import missing_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.observability.audited_request import audit
from metadata.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from runtime.slices import Slices
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
        allowed = [topic async for topic in slices.over(request.topics) if may_read(topic.name)]
        known = await _known_topics(allowed, services.metadata.image, slices)
    to_coordinator = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    response = await services.groups.delete_offsets(to_coordinator)
    if response.error_code != ErrorCode.NONE:
        return response
    async with services.serial_queue.begin(rows_count) as slices:
        return await _merged(request, response.topics, may_read, slices)


async def _merged(
    request: OffsetDeleteRequest,
    answered: Iterable[OffsetDeleteResponseTopic],
    may_read: Callable[[str], bool],
    slices: Slices,
) -> OffsetDeleteResponse:
    """Return one row for each row of the request, in its order; partitions without a result do not exist, or are hidden."""
    errors = {(topic.name, row.partition_index): row.error_code for topic in answered for row in topic.partitions}
    rows: dict[str, dict[int, OffsetDeleteResponsePartition]] = {}
    async for asked in slices.over(request.topics):
        missing = missing_error(may_read(asked.name))
        async for partition in slices.over(asked.partitions):
            index = partition.partition_index
            error = errors.get((asked.name, index), missing)
            row = OffsetDeleteResponsePartition(partition_index=index, error_code=error)
            rows.setdefault(asked.name, {})[index] = row
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[
            OffsetDeleteResponseTopic(name=name, partitions=list(of_topic.values())) for name, of_topic in rows.items()
        ],
    )


async def _known_topics(
    topics: list[OffsetDeleteRequestTopic], image: ClusterImage, slices: Slices
) -> list[OffsetDeleteRequestTopic]:
    """Return the rows of existing partitions. Of a partition that is named more than once, the last row counts."""
    known: dict[str, dict[int, OffsetDeleteRequestPartition]] = {}
    async for topic in slices.over(topics):
        async for partition in slices.over(topic.partitions):
            if image.partition(topic.name, partition.partition_index) is not None:
                known.setdefault(topic.name, {})[partition.partition_index] = partition
    return [
        OffsetDeleteRequestTopic(name=name, partitions=list(partitions.values())) for name, partitions in known.items()
    ]
