"""DeleteShareGroupOffsets (key 92): a share group without members forgets topics (KIP-932).

Behaviour: UNSUPPORTED_VERSION while `share.version` is 0. Topics are refused one by one.
Rights: to delete the group; then to read each topic.
Source: Kafka KafkaApis.handleDeleteShareGroupOffsetsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.observability.audited_request import audit
from coordinator.group.share.administration import deletion_refused
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_share_group_offsets import (
    DeletedTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    TopicResult,
)
from security.access import Operation, ResourceType, on_each


def _results(
    request: DeleteShareGroupOffsetsRequest, response: DeleteShareGroupOffsetsResponse
) -> list[tuple[str, int]]:
    return [(f"{request.group_id} {topic.topic_name}", topic.error_code) for topic in response.responses]


@handles(
    DeleteShareGroupOffsetsRequest,
    (on_each(Operation.DELETE, ResourceType.GROUP), on_each(Operation.READ, ResourceType.TOPIC)),
    audit=audit(Operation.DELETE, "OFFSET", "topics", _results),
)
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, may_delete: Rights, may_read: Rights
) -> DeleteShareGroupOffsetsResponse:
    services = context.services
    if not services.serves_share_groups():
        error = ErrorCode.UNSUPPORTED_VERSION
        return DeleteShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error, error_message=error.message, responses=[]
        )
    if not may_delete(request.group_id):
        raise may_delete.denial(request.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED.message)
    refused: list[TopicResult] = []
    missing: list[TopicResult] = []
    known: dict[str, DeletedTopic] = {}
    topics = services.metadata.image.topics
    async with services.serial_queue.begin(len(request.topics)) as slices:
        async for topic in slices.over(request.topics):
            name = topic.topic_name
            if not may_read(name):
                refused.append(deletion_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif name not in topics:
                missing.append(deletion_refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                known[name] = topic
    try:
        response = await services.groups.shares.delete_offsets(
            DeleteShareGroupOffsetsRequest(group_id=request.group_id, topics=list(known.values()))
        )
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, responses=[]
        )
    response.responses = refused + response.responses + missing
    return response
