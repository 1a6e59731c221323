"""AlterShareGroupOffsets (key 91): the share partitions of a group without members begin elsewhere (KIP-932).

Behaviour: UNSUPPORTED_VERSION while `share.version` is 0. A group that does not exist is made. Partitions are refused one
by one.
Rights: to read the group, then each topic.
Source: Kafka KafkaApis.handleAlterShareGroupOffsetsRequest.
"""

from __future__ import annotations

from broker.handlers.groups.assigned_groups import check_shares_are_served
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
    check_shares_are_served(context)
    if not may_read(request.group_id):
        raise may_read.denial(request.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED.message)
    refused: list[TopicResult] = []
    known: list[AlteredTopic] = []
    image = services.metadata.image
    async with services.serial_queue.begin(sum(len(topic.partitions) for topic in request.topics)) as slices:
        async for topic in slices.over(request.topics):
            if not may_read_topic(topic.topic_name):
                refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID))
            elif topic.topic_name not in image.topics:
                refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ZERO_UUID))
            else:
                known.append(topic)
    try:
        response = await services.groups.shares.alter_offsets(
            AlterShareGroupOffsetsRequest(group_id=request.group_id, topics=known)
        )
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, responses=[]
        )
    response.responses = refused + response.responses
    return response


def _refused(topic: AlteredTopic, error: ErrorCode, topic_id: bytes) -> TopicResult:
    rows = [partition_result(row.partition_index, error) for row in topic.partitions]
    return TopicResult(topic_name=topic.topic_name, topic_id=topic_id, partitions=rows)
