"""OffsetFetch (key 9): the offsets of groups, one (before version 8) or several.

Behaviour: a partition without an offset has offset -1 and no error. Version 0 reads from the store, with
UNKNOWN_TOPIC_OR_PARTITION for those. Version 1 has no error of the group: the response is empty, as Kafka's. Version 10 names
topics by their ids (KIP-848): one that no topic has gets UNKNOWN_TOPIC_ID, and offsets of topics that are gone are left out.
Rights: on each group; when all offsets of a group are wanted, those of topics that the client may not describe are left out.
Source: Kafka KafkaApis.handleOffsetFetchRequest, OffsetFetchResponse; KIP-447, KIP-709 (several groups).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.handlers.groups.legacy_offsets import fetch_legacy_offset
from broker.handlers.topic_ids import named
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.offset_commits import FetchedOffsets
from coordinator.group.offsets import CommittedOffset
from metadata.image import ClusterImage
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.primitives import ZERO_UUID
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each

_BATCHED_SINCE = 8
_TOPIC_IDS_SINCE = 10
NO_OFFSET = -1
NO_LEADER_EPOCH = -1

Topic = TypeVar("Topic")
Row = TypeVar("Row", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


@handles(
    OffsetFetchRequest,
    (on_each(Operation.DESCRIBE, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"groups": "groups", "topics": "topics"}, committed_offset=-1, metadata=""),
)
async def offset_fetch(
    request: OffsetFetchRequest, context: RequestContext, may_describe_group: Rights, may_describe: Rights
) -> OffsetFetchResponse:
    if context.api_version == 0:
        return await _fetch_legacy(request, context, may_describe_group, may_describe)
    stable = request.require_stable
    if context.api_version < _BATCHED_SINCE:
        topics = None if request.topics is None else [_in_group_form(topic) for topic in request.topics]
        wanted = _without_empty_topics(OffsetFetchRequestGroup(group_id=request.group_id, topics=topics))
        async with context.services.serial_queue.begin(_rows_count([wanted])) as slices:
            found = await _fetch(wanted, context, may_describe_group, may_describe, slices, require_stable=stable)
            return OffsetFetchResponse(
                error_code=found.error,
                topics=await _topics(found, OffsetFetchResponseTopic, OffsetFetchResponsePartition, slices),
            )
    answered: list[OffsetFetchResponseGroup] = []
    async with context.services.serial_queue.begin(_rows_count(request.groups)) as slices:
        image = context.services.metadata.image
        async for group in slices.over(request.groups):
            unknown: list[OffsetFetchRequestTopics] = []
            if context.api_version >= _TOPIC_IDS_SINCE and group.topics is not None:
                group.topics, unknown = named(group.topics, image.names_by_id)
            found = await _fetch(
                _without_empty_topics(group), context, may_describe_group, may_describe, slices, require_stable=stable
            )
            of_group = await _topics(found, OffsetFetchResponseTopics, OffsetFetchResponsePartitions, slices)
            if context.api_version >= _TOPIC_IDS_SINCE:
                of_group = _identified(of_group, image)
                if found.error is ErrorCode.NONE:
                    of_group += _unknown_ids(unknown)
            answered.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=of_group, error_code=found.error))
        return OffsetFetchResponse(groups=answered)


async def _fetch(
    wanted: OffsetFetchRequestGroup,
    context: RequestContext,
    may_describe_group: Rights,
    may_describe: Rights,
    slices: Slices,
    *,
    require_stable: bool,
) -> FetchedOffsets:
    """Return the offsets that the client may see. Of topics that it has named and may not describe there is an error."""
    groups = context.services.groups
    if may_describe.are_open:
        return groups.fetch_offsets(wanted, require_stable=require_stable)
    if not may_describe_group(wanted.group_id):
        return FetchedOffsets(ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    if wanted.topics is None:
        found = groups.fetch_offsets(wanted, require_stable=require_stable)
        topics = found.topic_partitions
        visible = {name: topics[name] async for name in slices.over(topics) if may_describe(name)}
        return FetchedOffsets(found.error, visible)
    hidden = [topic async for topic in slices.over(wanted.topics) if not may_describe(topic.name)]
    wanted.topics = [topic async for topic in slices.over(wanted.topics) if may_describe(topic.name)]
    found = groups.fetch_offsets(wanted, require_stable=require_stable)
    if found.error is not ErrorCode.NONE or not hidden:
        return found
    rows = dict(found.topic_partitions)
    async for topic in slices.over(hidden):
        rows.setdefault(topic.name, {}).update(
            dict.fromkeys(topic.partition_indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        )
    return FetchedOffsets(found.error, rows)


def _without_empty_topics(group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    """Return the rows of a request; topics without partitions are omitted, as in Kafka."""
    if group.topics is not None and not all(topic.partition_indexes for topic in group.topics):
        group.topics = [topic for topic in group.topics if topic.partition_indexes]
    return group


def _in_group_form(topic: OffsetFetchRequestTopic) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)


def _rows_count(wanted: Sequence[OffsetFetchRequestGroup]) -> int | None:
    """Return the number of requested partitions, None for all offsets of a group."""
    count = len(wanted)
    for group in wanted:
        if group.topics is None:
            return None
        count += sum(len(topic.partition_indexes) for topic in group.topics)
    return count


async def _topics(
    found: FetchedOffsets, topic_type: Callable[..., Topic], row_type: type[Row], slices: Slices
) -> list[Topic]:
    return [
        topic_type(
            name=name,
            partitions=[_found_row(row_type, index, each) async for index, each in slices.over(partitions.items())],
        )
        async for name, partitions in slices.over(found.topic_partitions.items())
    ]


def _identified(topics: list[OffsetFetchResponseTopics], image: ClusterImage) -> list[OffsetFetchResponseTopics]:
    for topic in topics:
        of_cluster = image.topics.get(topic.name)
        topic.topic_id = ZERO_UUID if of_cluster is None else of_cluster.topic_id
    return [topic for topic in topics if topic.topic_id != ZERO_UUID]


def _unknown_ids(topics: list[OffsetFetchRequestTopics]) -> list[OffsetFetchResponseTopics]:
    indexes: dict[bytes, dict[int, None]] = {}
    for topic in topics:
        indexes.setdefault(topic.topic_id, {}).update(dict.fromkeys(topic.partition_indexes))
    error = ErrorCode.UNKNOWN_TOPIC_ID
    return [
        OffsetFetchResponseTopics(
            topic_id=topic_id,
            partitions=[_found_row(OffsetFetchResponsePartitions, index, error) for index in of_topic],
        )
        for topic_id, of_topic in indexes.items()
    ]


def _found_row(row_type: type[Row], index: int, found: CommittedOffset | ErrorCode | None) -> Row:
    if isinstance(found, CommittedOffset):
        return row_type(
            partition_index=index,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            metadata=found.metadata,
            error_code=ErrorCode.NONE,
        )
    return row_type(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=ErrorCode.NONE if found is None else found,
    )


def _row(index: int, offset: int, error: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=error,
    )


async def _fetch_legacy(
    request: OffsetFetchRequest, context: RequestContext, may_describe_group: Rights, may_describe: Rights
) -> OffsetFetchResponse:
    slices = Slices(context.services.clock)
    refusal = ErrorCode.NONE
    if not may_describe_group(request.group_id):
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _row(index, NO_OFFSET, refusal or ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    if refusal or not may_describe(topic.name)
                    else await _legacy_row(context, request.group_id, topic.name, index)
                    async for index in slices.over(topic.partition_indexes)
                ],
            )
            async for topic in slices.over(request.topics or [])
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
