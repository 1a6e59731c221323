"""ConsumerGroupDescribe (key 69): state and members of groups with broker-side assignment (KIP-848).

Behaviour: while consumer groups are not served, each group gets UNSUPPORTED_VERSION, as from Apache Kafka in ZooKeeper mode.
Administrative clients then use DescribeGroups, so the log has no warning.
Rights: on each group. A group that is assigned a topic which the client may not describe is not described:
TOPIC_AUTHORIZATION_FAILED.
Source: Kafka KafkaApis.handleConsumerGroupDescribe, ConsumerGroupDescribeRequest.getErrorDescribedGroupList.
"""

from __future__ import annotations

from broker.handlers.authorized_operations import authorized_operations
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from security.access import Operation, ResourceType, on_each

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


@handles(
    ConsumerGroupDescribeRequest,
    (on_each(Operation.DESCRIBE, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"groups": "group_ids"}, group_state="", assignor_name=""),
)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext, may_describe: Rights, may_describe_topic: Rights
) -> ConsumerGroupDescribeResponse:
    services = context.services
    groups: list[DescribedGroup] = []
    are_served = services.serves_consumer_groups()
    topic_rights = None if may_describe_topic.are_open else may_describe_topic.unlogged()
    async with services.serial_queue.begin(None if are_served else len(request.group_ids)) as slices:
        async for group_id in slices.over(request.group_ids):
            if not are_served:
                groups.append(_without_members(group_id, KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
                continue
            if not may_describe(group_id):
                groups.append(_without_members(group_id, may_describe.denial(group_id)))
                continue
            group = services.groups.describe_consumer_group(group_id)
            if topic_rights is not None and not all(topic_rights(name) for name in _topics(group)):
                group = _without_members(group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS))
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
            groups.append(group)
        return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _topics(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def _without_members(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.own_message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
