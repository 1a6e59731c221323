"""DescribeGroups (key 15): state, protocol and members of groups.

Behaviour: a group that does not exist is described as Dead, without an error.
Source: Kafka KafkaApis.handleDescribeGroupsRequest; KIP-430 (authorized operations).
"""

from __future__ import annotations

from broker.handlers.authorized_operations import authorized_operations
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from security.access import Operation, ResourceType, on_each


@handles(
    DescribeGroupsRequest,
    on_each(Operation.DESCRIBE, ResourceType.GROUP),
    errors=ErrorForm({"groups": "groups"}, group_state="", protocol_type="", protocol_data=""),
    versions="0-5",
)
async def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, may_describe: Rights
) -> DescribeGroupsResponse:
    services = context.services
    groups: list[DescribedGroup] = []
    async with services.serial_queue.begin(len(request.groups)) as slices:
        async for group_id in slices.over(request.groups):
            if not may_describe(group_id):
                groups.append(_hidden(group_id))
                continue
            group = services.groups.describe_group(group_id)
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
            groups.append(group)
        return DescribeGroupsResponse(groups=groups)


def _hidden(group_id: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
