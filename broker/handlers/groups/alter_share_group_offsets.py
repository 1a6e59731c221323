"""AlterShareGroupOffsets (key 91): the share partitions of a group without members begin elsewhere (KIP-932).

Behaviour: UNSUPPORTED_VERSION while `share.version` is 0. A group that does not exist is made. Partitions are refused one
by one.
Rights: to read the group, then each topic.
Source: Kafka KafkaApis.handleAlterShareGroupOffsetsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.observability.audited_request import audit
from coordinator.group.share.administration import partition_result
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_share_group_offsets import (
    AlteredTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    TopicResult,
)
from protocol.primitives import ZERO_UUID
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each


def _results(request: AlterShareGroupOffsetsRequest, response: AlterShareGroupOffsetsResponse) -> list[tuple[str, int]]:
    return [
        (f"{request.group_id} {topic.topic_name}-{row.partition_index}", row.error_code)
        for topic in response.responses
        for row in topic.partitions
    ]


@handles(
    AlterShareGroupOffsetsRequest,
    (on_each(Operation.READ, ResourceType.GROUP), on_each(Operation.READ, ResourceType.TOPIC)),
    audit=audit(Operation.ALTER, "OFFSET", "topics.partitions", _results),
)
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, context: RequestContext, may_read: Rights, may_read_topic: Rights
) -> AlterShareGroupOffsetsResponse:
    services = context.services
    if not services.serves_share_groups():
        error = ErrorCode.UNSUPPORTED_VERSION
        return AlterShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error, error_message=error.message, responses=[]
        )
    if not may_read(request.group_id):
        raise may_read.denial(request.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED.message)
    image, rows_count = services.metadata.image, sum(len(topic.partitions) for topic in request.topics)
    known: list[AlteredTopic] = []
    async with services.serial_queue.begin(rows_count) as slices:
        async for topic in slices.over(request.topics):
            if not may_read_topic(topic.topic_name):
                continue
            rows = {}
            async for row in slices.over(topic.partitions):
                if image.partition(topic.topic_name, row.partition_index) is not None:
                    rows[row.partition_index] = row
            known.append(AlteredTopic(topic_name=topic.topic_name, partitions=list(rows.values())))
    try:
        response = await services.groups.shares.alter_offsets(
            AlterShareGroupOffsetsRequest(group_id=request.group_id, topics=known)
        )
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, responses=[]
        )
    async with services.serial_queue.begin(rows_count) as slices:
        response.responses = await _all_rows(request, response.responses, slices)
    return response


async def _all_rows(
    request: AlterShareGroupOffsetsRequest, answered: list[TopicResult], slices: Slices
) -> list[TopicResult]:
    """A row for each of the request: topics that are hidden or do not exist first, then those that the coordinator knows."""
    topics = {topic.topic_name: topic for topic in answered}
    refused: list[TopicResult] = []
    known: list[TopicResult] = []
    async for asked in slices.over(request.topics):
        topic = topics.get(asked.topic_name)
        missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows = {} if topic is None else {row.partition_index: row for row in topic.partitions}
        results = []
        async for row in slices.over(asked.partitions):
            index = row.partition_index
            results.append(rows.get(index) or partition_result(index, missing))
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        found = TopicResult(topic_name=asked.topic_name, topic_id=topic_id, partitions=results)
        (refused if topic_id == ZERO_UUID else known).append(found)
    return refused + known
