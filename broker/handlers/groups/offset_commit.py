"""OffsetCommit (key 8): store the offsets of a group.

Behaviour: topics and partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, and the others are committed; if there are no
others, the coordinator is not called. Version 0 writes to the store. Version 10 names topics by their ids (KIP-848): an unknown
one gets UNKNOWN_TOPIC_ID.
Rights: on the group for the whole request, then on each topic.
Source: Kafka KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from broker.handlers.groups.legacy_offsets import commit_legacy_offset
from broker.handlers.groups.offset_rows import rows_for_coordinator, rows_of_response
from broker.handlers.topic_ids import named
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.consumer.validation import COMMIT_WITH_EPOCH_SINCE
from coordinator.group.offset_commits import metadata_is_too_large
from metadata.store.port import Store, StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each, on_named

TOPIC_IDS_SINCE = 10
LAST_WITHOUT_EPOCHS = COMMIT_WITH_EPOCH_SINCE - 1


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
        unknown: list[OffsetCommitRequestTopic] = []
        if context.api_version >= TOPIC_IDS_SINCE:
            request.topics, unknown = named(request.topics, services.metadata.image.names_by_id)
        known = await rows_for_coordinator(request.topics, may_read, services.metadata.image, slices)
    answered: list[OffsetCommitResponseTopic] = []
    if known:
        answered = await _commit(request, known, context)
    async with services.serial_queue.begin(rows_count) as slices:
        make_topic, make_row = OffsetCommitResponseTopic, OffsetCommitResponsePartition
        rows = await rows_of_response(request.topics, answered, may_read, make_topic, make_row, slices)
        ids = {topic.name: topic.topic_id for topic in request.topics}
        for row in rows:
            row.topic_id = ids[row.name]
        return OffsetCommitResponse(topics=rows + await _unknown_ids(unknown, slices))


async def _unknown_ids(topics: list[OffsetCommitRequestTopic], slices: Slices) -> list[OffsetCommitResponseTopic]:
    indexes: dict[bytes, dict[int, None]] = {}
    async for topic in slices.over(topics):
        indexes.setdefault(topic.topic_id, {}).update((row.partition_index, None) for row in topic.partitions)
    return [
        OffsetCommitResponseTopic(
            topic_id=topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                for index in of_topic
            ],
        )
        async for topic_id, of_topic in slices.over(indexes.items())
    ]


async def _refused(request: OffsetCommitRequest, error: ErrorCode, slices: Slices) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
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
    # Without consumer groups the newest version of Apache Kafka 3.9 is as those before it.
    version = context.api_version if services.serves_consumer_groups() else LAST_WITHOUT_EPOCHS
    return (await services.groups.commit_offsets(to_coordinator, version)).topics


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
