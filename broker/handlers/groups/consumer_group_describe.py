"""ConsumerGroupDescribe (key 69): state and members of groups with broker-side assignment (KIP-848).

Behaviour: while consumer groups are not served, each group gets UNSUPPORTED_VERSION, as from Apache Kafka in ZooKeeper mode.
Administrative clients then use DescribeGroups, so the log has no warning.
Rights: on each group. A group that is assigned a topic which the client may not describe is not described:
TOPIC_AUTHORIZATION_FAILED.
Source: Kafka KafkaApis.handleConsumerGroupDescribe, ConsumerGroupDescribeRequest.getErrorDescribedGroupList.
"""

from __future__ import annotations

from broker.handlers.groups.assigned_groups import described_groups
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.consumer.description import described_consumer_error
from protocol.errors import KafkaError
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from security.access import Operation, ResourceType, on_each


@handles(
    ConsumerGroupDescribeRequest,
    (on_each(Operation.DESCRIBE, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"groups": "group_ids"}, group_state="", assignor_name=""),
)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext, may_describe: Rights, may_describe_topic: Rights
) -> ConsumerGroupDescribeResponse:
    services = context.services
    groups = await described_groups(
        request.group_ids,
        context,
        may_describe,
        may_describe_topic,
        services.groups.describe_consumer_group if services.serves_consumer_groups() else None,
        _topics,
        _without_members,
        with_operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _topics(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def _without_members(group_id: str, error: KafkaError) -> DescribedGroup:
    return described_consumer_error(group_id, error.code, error.own_message)
