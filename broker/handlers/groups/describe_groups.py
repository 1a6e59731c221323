"""DescribeGroups (key 15): state, protocol and members of groups.

Behaviour: a group that does not exist, or is no classic group, is described as Dead; from v6 on that is GROUP_ID_NOT_FOUND.
Source: Kafka KafkaApis.handleDescribeGroupsRequest; KIP-430 (authorized operations), KIP-1043 (v6).
"""

from __future__ import annotations

from broker.handlers.authorized_operations import authorized_operations
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.group.classic.group import GroupState
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from security.access import Operation, ResourceType, on_each

NOT_FOUND_SINCE = 6


@handles(
    DescribeGroupsRequest,
    on_each(Operation.DESCRIBE, ResourceType.GROUP),
    errors=ErrorForm({"groups": "groups"}, group_state="", protocol_type="", protocol_data=""),
)
async def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, may_describe: Rights
) -> DescribeGroupsResponse:
    services = context.services
    groups: list[DescribedGroup] = []
    async with services.serial_queue.begin(len(request.groups)) as slices:
        async for group_id in slices.over(request.groups):
            if not may_describe(group_id):
                groups.append(_hidden(group_id, may_describe.denial(group_id), context.api_version))
                continue
            group = services.groups.describe_group(group_id)
            if context.api_version < NOT_FOUND_SINCE:
                group.error_message = None
            elif group.group_state == GroupState.DEAD.value:
                group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
            groups.append(group)
        return DescribeGroupsResponse(groups=groups)


def _hidden(group_id: str, denial: KafkaError, api_version: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=denial.code,
        error_message=denial.own_message if api_version >= NOT_FOUND_SINCE else None,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
