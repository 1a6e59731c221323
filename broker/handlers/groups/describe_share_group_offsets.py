"""DescribeShareGroupOffsets (key 90): where the share partitions of groups begin, and their lag (KIP-932, KIP-1226).

Behaviour: UNSUPPORTED_VERSION while `share.version` is 0. Without topics, all share partitions of the group whose states are
initialized. A partition without a state begins at -1. The lag is -1 where it is not known: nothing was acknowledged yet, or the
leader does not answer.
Rights: on each group, then on each topic; topics that the client may not describe are left out of a request for all.
Source: Kafka KafkaApis.handleDescribeShareGroupOffsetsRequest, GroupCoordinatorService.computeShareGroupLagAndBuildResponse.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.handlers.groups.assigned_groups import check_shares_are_served
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
    check_shares_are_served(context)
    groups = []
    for asked in request.groups:
        if not may_describe(asked.group_id):
            groups.append(_refused(asked.group_id, may_describe.denial(asked.group_id)))
            continue
        try:
            groups.append(await _described(asked, context, may_describe_topic))
        except KafkaError as refused:
            groups.append(_refused(asked.group_id, refused))
    return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups)


async def _described(asked: RequestedGroup, context: RequestContext, may_describe: Rights) -> DescribedGroup:
    """Raises: KafkaError when this broker does not coordinate the group."""
    if not asked.group_id:
        raise KafkaError(_REFUSED)
    services = context.services
    shares, image = services.groups.shares, services.metadata.image
    topics: list[DescribedTopic] = []
    places: list[Place] = []
    names: dict[bytes, str] = {}
    if asked.topics is None:
        for topic_id, partition in shares.initialized(asked.group_id):
            name = image.names_by_id.get(topic_id)
            if name is not None and may_describe(name):
                names[topic_id] = name
                places.append((topic_id, partition))
    else:
        for topic in asked.topics:
            found = image.topics.get(topic.topic_name)
            if not may_describe(topic.topic_name):
                topics.append(_hidden(topic))
            elif found is None:
                topics.append(_topic(topic.topic_name, ZERO_UUID, [_partition(each) for each in topic.partitions]))
            elif not topic.partitions:
                raise KafkaError(_REFUSED)
            else:
                names[found.topic_id] = topic.topic_name
                places += [(found.topic_id, partition) for partition in topic.partitions]
    summaries = await shares.summaries(asked.group_id, places)
    ends = await _ends(context, names, summaries) if context.api_version >= LAG_SINCE else {}
    rows: dict[bytes, list[DescribedPartition]] = {}
    for topic_id, partition in places:
        end = ends.get((names[topic_id], partition))
        rows.setdefault(topic_id, []).append(_row(partition, summaries[topic_id, partition], end))
    described = [_topic(names[topic_id], topic_id, of_topic) for topic_id, of_topic in rows.items()]
    return DescribedGroup(group_id=asked.group_id, topics=described + topics, error_code=ErrorCode.NONE)


async def _ends(
    context: RequestContext, names: Mapping[bytes, str], summaries: Mapping[Place, ShareSummary | ErrorCode]
) -> Mapping[TopicPartition, int]:
    """The ends of the partitions whose lag can be told."""
    wanted = [
        (names[topic_id], partition)
        for (topic_id, partition), summary in summaries.items()
        if not isinstance(summary, ErrorCode) and _has_lag(summary)
    ]
    return await context.services.group_lag.ends_of(wanted) if wanted else {}


def _has_lag(summary: ShareSummary) -> bool:
    return summary.start_offset != NO_START_OFFSET and summary.delivery_complete_count != UNKNOWN


def _row(partition: int, summary: ShareSummary | ErrorCode, end: int | None) -> DescribedPartition:
    if summary is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return _partition(partition)  # it has no state
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
