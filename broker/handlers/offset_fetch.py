"""OffsetFetch (key 9): how far groups have read, one (before version 8) or several.

Behaviour: a partition without an offset answers -1 and no error. Version 0 asks the tree store, which knows no such
partition as UNKNOWN_TOPIC_OR_PARTITION. Version 1 has no place for an error of the group: the answer is empty, as Kafka's.
Source: Kafka KafkaApis.handleOffsetFetchRequest, OffsetFetchResponse; KIP-447, KIP-709 (several groups).
"""

from __future__ import annotations

from broker.context import RequestContext
from broker.dispatch import handles
from broker.handlers.legacy_offsets import fetch_legacy_offset
from controller.store import StoreError
from coordinator.group.committing import NO_LEADER_EPOCH, NO_OFFSET
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_BATCHED_SINCE = 8


@handles(OffsetFetchRequest)
async def offset_fetch(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.api_version == 0:
        return await _fetch_legacy(request, context)
    groups = context.services.groups
    if context.api_version >= _BATCHED_SINCE:
        return OffsetFetchResponse(
            groups=[
                groups.fetch_offsets(_without_empty_topics(group), require_stable=request.require_stable)
                for group in request.groups
            ]
        )
    topics = None if request.topics is None else [_in_group_form(topic) for topic in request.topics]
    wanted = _without_empty_topics(OffsetFetchRequestGroup(group_id=request.group_id, topics=topics))
    return _in_single_form(groups.fetch_offsets(wanted, require_stable=request.require_stable))


def _without_empty_topics(group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    """A topic without partitions is not answered, as in Kafka."""
    if group.topics is not None and not all(topic.partition_indexes for topic in group.topics):
        group.topics = [topic for topic in group.topics if topic.partition_indexes]
    return group


def _in_group_form(topic: OffsetFetchRequestTopic) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)


def _in_single_form(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _row(index: int, offset: int, error: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=error,
    )


async def _fetch_legacy(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    await _legacy_row(context, request.group_id, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
            if topic.partition_indexes
        ]
    )


async def _legacy_row(context: RequestContext, group_id: str, topic: str, index: int) -> OffsetFetchResponsePartition:
    if context.services.metadata.image.partition(topic, index) is None:
        return _row(index, NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        offset = await fetch_legacy_offset(context.services.store, group_id, topic, index)
    except KafkaError as error:
        return _row(index, NO_OFFSET, error.code)
    except StoreError:
        return _row(index, NO_OFFSET, ErrorCode.UNKNOWN_SERVER_ERROR)
    if offset is None:
        return _row(index, NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _row(index, offset, ErrorCode.NONE)
