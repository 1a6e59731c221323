"""ShareGroupDescribe (key 77): state and members of share groups (KIP-932).

Behaviour: each group gets UNSUPPORTED_VERSION while `share.version` is 0.
Rights: on each group. A group with a member that is assigned a topic which the client may not describe is not described:
TOPIC_AUTHORIZATION_FAILED.
Source: Kafka KafkaApis.handleShareGroupDescribe, ShareGroupDescribeRequest.getErrorDescribedGroupList.
"""

from __future__ import annotations

from broker.handlers.groups.assigned_groups import described_groups
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.share.description import described_share_error
from protocol.errors import KafkaError
from protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from security.access import Operation, ResourceType, on_each


@handles(
    ShareGroupDescribeRequest,
    (on_each(Operation.DESCRIBE, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"groups": "group_ids"}, group_state="", assignor_name=""),
)
async def share_group_describe(
    request: ShareGroupDescribeRequest, context: RequestContext, may_describe: Rights, may_describe_topic: Rights
) -> ShareGroupDescribeResponse:
    services = context.services
    groups = await described_groups(
        request.group_ids,
        context,
        may_describe,
        may_describe_topic,
        services.groups.describe_share_group if services.serves_share_groups() else None,
        _topics,
        _without_members,
        with_operations=request.include_authorized_operations,
    )
    return ShareGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _topics(group: DescribedGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


def _without_members(group_id: str, error: KafkaError) -> DescribedGroup:
    return described_share_error(group_id, error.code, error.own_message)
