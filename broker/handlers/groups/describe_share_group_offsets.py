"""DescribeShareGroupOffsets (key 90): where the share partitions of groups begin, and their lag (KIP-932, KIP-1226).

Behaviour: UNSUPPORTED_VERSION while `share.version` is 0. Without topics, all share partitions of the group whose states are
initialized. A partition without a state begins at -1. The lag is -1 where it is not known: nothing was acknowledged yet, or the
leader does not answer.
Rights: on each group, then on each topic; topics that the client may not describe are left out of a request for all.
Source: Kafka KafkaApis.handleDescribeShareGroupOffsetsRequest, GroupCoordinatorService.computeShareGroupLagAndBuildResponse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.share.state_keeping import NO_START_OFFSET, Place, ShareSummary
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_share_group_offsets import (
    DescribedGroup,
    DescribedPartition,
    DescribedTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestedGroup,
    RequestedTopic,
)
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from security.access import Operation, ResourceType, on_each

LAG_SINCE = 1
UNKNOWN = -1
_REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR
"""What Apache Kafka makes of a request for nothing: of a group without an id, or a topic without partitions."""


@handles(
    DescribeShareGroupOffsetsRequest,
    (on_each(Operation.DESCRIBE, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"groups": "groups"}),
)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, may_describe: Rights, may_describe_topic: Rights
) -> DescribeShareGroupOffsetsResponse:
    groups = []
    for asked in request.groups:
        if not context.services.serves_share_groups():
            groups.append(DescribedGroup(group_id=asked.group_id, topics=[], error_code=ErrorCode.UNSUPPORTED_VERSION))
            continue
        if not may_describe(asked.group_id):
            groups.append(_refused(asked.group_id, may_describe.denial(asked.group_id)))
            continue
        try:
            groups.append(await _described(asked, context, may_describe_topic))
        except KafkaError as refused:
            groups.append(_refused(asked.group_id, refused))
    return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups)


@dataclass(slots=True)
class _WantedShares:
    """The topics of a response in its order, by name and id, each with its partitions; those of `places` may have a state."""

    topics: list[tuple[str, bytes, Sequence[int]]] = field(default_factory=list)
    hidden: list[DescribedTopic] = field(default_factory=list)
    places: dict[Place, TopicPartition] = field(default_factory=dict)


async def _described(asked: RequestedGroup, context: RequestContext, may_describe: Rights) -> DescribedGroup:
    """Raises: KafkaError when this broker does not coordinate the group."""
    if not asked.group_id:
        raise KafkaError(_REFUSED)
    shares = context.services.groups.shares
    # Also where topics are named: a broker that has just started may not know them, and would say that nothing was read.
    initialized = shares.initialized(asked.group_id)
    if asked.topics is None:
        wanted = await _all_initialized(initialized, context, may_describe)
    else:
        wanted = await _named(asked.topics, context, may_describe)
    summaries = await shares.summaries(asked.group_id, list(wanted.places))
    ends = await _ends(context, wanted, summaries) if context.api_version >= LAG_SINCE else {}
    described = []
    async with context.services.serial_queue.begin(sum(len(each[2]) for each in wanted.topics)) as slices:
        for name, topic_id, partitions in wanted.topics:
            rows = [
                _row(index, summaries.get((topic_id, index)), ends.get((name, index)))
                async for index in slices.over(partitions)
            ]
            described.append(_topic(name, topic_id, rows))
    return DescribedGroup(group_id=asked.group_id, topics=described + wanted.hidden, error_code=ErrorCode.NONE)


async def _all_initialized(places: Sequence[Place], context: RequestContext, may_describe: Rights) -> _WantedShares:
    names = context.services.metadata.image.names_by_id
    wanted, partitions = _WantedShares(), dict[bytes, list[int]]()
    async with context.services.serial_queue.begin(len(places)) as slices:
        async for topic_id, index in slices.over(places):
            name = names.get(topic_id)
            if name is None or not may_describe(name):
                continue
            if topic_id not in partitions:
                wanted.topics.append((name, topic_id, partitions.setdefault(topic_id, [])))
            partitions[topic_id].append(index)
            wanted.places[topic_id, index] = (name, index)
    return wanted


async def _named(topics: Sequence[RequestedTopic], context: RequestContext, may_describe: Rights) -> _WantedShares:
    """Raises: KafkaError for a topic without partitions."""
    image, wanted = context.services.metadata.image, _WantedShares()
    async with context.services.serial_queue.begin(sum(len(topic.partitions) for topic in topics)) as slices:
        async for topic in slices.over(topics):
            name, found = topic.topic_name, image.topics.get(topic.topic_name)
            if not may_describe(name):
                wanted.hidden.append(_hidden(topic))
                continue
            if found is not None and not topic.partitions:
                raise KafkaError(_REFUSED)
            topic_id = ZERO_UUID if found is None else found.topic_id
            wanted.topics.append((name, topic_id, topic.partitions))
            async for index in slices.over(topic.partitions):
                if found is not None and index in found.partitions:
                    wanted.places[topic_id, index] = (name, index)
    return wanted


async def _ends(
    context: RequestContext, wanted: _WantedShares, summaries: Mapping[Place, ShareSummary | ErrorCode]
) -> Mapping[TopicPartition, int]:
    """The ends of the partitions whose lag can be told."""
    asked = [
        wanted.places[place]
        for place, summary in summaries.items()
        if not isinstance(summary, ErrorCode) and _has_lag(summary)
    ]
    return await context.services.group_lag.ends_of(asked) if asked else {}


def _has_lag(summary: ShareSummary) -> bool:
    return summary.start_offset != NO_START_OFFSET and summary.delivery_complete_count != UNKNOWN


def _row(partition: int, summary: ShareSummary | ErrorCode | None, end: int | None) -> DescribedPartition:
    if summary is None:
        return _partition(partition)  # it does not exist
    if isinstance(summary, ErrorCode):
        return _partition(partition, error=summary)
    lag = UNKNOWN
    if end is not None and _has_lag(summary):
        lag = end - summary.start_offset - summary.delivery_complete_count
    return _partition(partition, summary.start_offset, summary.leader_epoch, lag)


def _partition(
    partition: int,
    start_offset: int = NO_START_OFFSET,
    leader_epoch: int = 0,
    lag: int = UNKNOWN,
    error: ErrorCode = ErrorCode.NONE,
) -> DescribedPartition:
    return DescribedPartition(
        partition_index=partition,
        start_offset=start_offset,
        leader_epoch=leader_epoch,
        lag=lag,
        error_code=error,
        error_message=None if error is ErrorCode.NONE else error.message,
    )


def _topic(name: str, topic_id: bytes, partitions: list[DescribedPartition]) -> DescribedTopic:
    return DescribedTopic(topic_name=name, topic_id=topic_id, partitions=partitions)


def _hidden(topic: RequestedTopic) -> DescribedTopic:
    rows = [_partition(each, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for each in topic.partitions]
    return _topic(topic.topic_name, ZERO_UUID, rows)


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, topics=[], error_code=error.code, error_message=error.message)
