"""OffsetCommit (key 8): store the offsets of a group.

Behaviour: topics and partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, and the others are committed; if there are no
others, the coordinator is not called. Version 0 writes to the store.
Rights: on the group for the whole request, then on each topic.
Source: Kafka KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.handlers.groups.legacy_offsets import commit_legacy_offset
from broker.handlers.partition_lookup import missing_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.offset_commits import metadata_is_too_large
from metadata.image import ClusterImage
from metadata.store.port import Store, StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each, on_named


@handles(
    OffsetCommitRequest,
    (on_named(Operation.READ, ResourceType.GROUP, "group_id"), on_each(Operation.READ, ResourceType.TOPIC)),
    errors=ErrorForm({"topics": "topics"}),
)
async def offset_commit(
    request: OffsetCommitRequest, context: RequestContext, may_read: Rights
) -> OffsetCommitResponse:
    services = context.services
    rows_count = sum(len(topic.partitions) for topic in request.topics)
    async with services.serial_queue.begin(rows_count) as slices:
        if services.groups.refuses(request.group_instance_id):
            return await _refused(request, ErrorCode.UNSUPPORTED_VERSION, slices)
        allowed = [topic async for topic in slices.over(request.topics) if may_read(topic.name)]
        known = await _known_topics(allowed, services.metadata.image, slices)
    answered: list[OffsetCommitResponseTopic] = []
    if known:
        answered = await _commit(request, known, context)
    async with services.serial_queue.begin(rows_count) as slices:
        return await _merged(request, answered, may_read, slices)


async def _refused(request: OffsetCommitRequest, error: ErrorCode, slices: Slices) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                    async for row in slices.over(topic.partitions)
                ],
            )
            async for topic in slices.over(request.topics)
        ]
    )


async def _commit(
    request: OffsetCommitRequest, known: list[OffsetCommitRequestTopic], context: RequestContext
) -> list[OffsetCommitResponseTopic]:
    services = context.services
    if context.api_version == 0:
        limit = services.settings.offset_metadata_max_bytes
        return await _store_legacy(services.store, request.group_id, known, limit, Slices(services.clock))
    to_coordinator = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=known,
    )
    return (await services.groups.commit_offsets(to_coordinator)).topics


async def _known_topics(
    topics: list[OffsetCommitRequestTopic], image: ClusterImage, slices: Slices
) -> list[OffsetCommitRequestTopic]:
    """Return the rows of existing partitions. Of a partition that is named more than once, the last row counts."""
    known: dict[str, dict[int, OffsetCommitRequestPartition]] = {}
    async for topic in slices.over(topics):
        async for partition in slices.over(topic.partitions):
            if image.partition(topic.name, partition.partition_index) is not None:
                known.setdefault(topic.name, {})[partition.partition_index] = partition
    return [
        OffsetCommitRequestTopic(name=name, partitions=list(partitions.values())) for name, partitions in known.items()
    ]


async def _merged(
    request: OffsetCommitRequest,
    answered: Iterable[OffsetCommitResponseTopic],
    may_read: Callable[[str], bool],
    slices: Slices,
) -> OffsetCommitResponse:
    """Return one row for each row of the request, in its order; partitions without a result do not exist, or are hidden."""
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answered
        for partition in topic.partitions
    }
    rows: dict[str, dict[int, OffsetCommitResponsePartition]] = {}
    async for topic in slices.over(request.topics):
        missing = missing_error(may_read(topic.name))
        async for partition in slices.over(topic.partitions):
            index = partition.partition_index
            error = errors.get((topic.name, index), missing)
            row = OffsetCommitResponsePartition(partition_index=index, error_code=error)
            rows.setdefault(topic.name, {})[index] = row
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, partitions=list(of_topic.values())) for name, of_topic in rows.items()
        ]
    )


async def _store_legacy(
    store: Store, group_id: str, topics: list[OffsetCommitRequestTopic], metadata_limit: int, slices: Slices
) -> list[OffsetCommitResponseTopic]:
    """Commit offsets to the store. The metadata string is checked but not stored."""
    answered = []
    async for topic in slices.over(topics):
        rows = []
        async for partition in slices.over(topic.partitions):
            error = ErrorCode.NONE
            if metadata_is_too_large(partition.committed_metadata, metadata_limit):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                try:
                    await commit_legacy_offset(
                        store, group_id, topic.name, partition.partition_index, partition.committed_offset
                    )
                except KafkaError as refused:
                    error = refused.code
                except StoreError:
                    error = ErrorCode.UNKNOWN_SERVER_ERROR
            rows.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
        answered.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
    return answered
