"""DescribeGroups (key 15): state, protocol and members of groups.

Behaviour: a group that does not exist is described as Dead, without an error.
Source: Kafka KafkaApis.handleDescribeGroupsRequest; KIP-430 (authorized operations).
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from security.access import Operation, ResourceType, on_each

# Without an authorizer every operation on a group is allowed: bits by AclOperation's number.
_READ, _DELETE, _DESCRIBE = 3, 6, 8
ALL_GROUP_OPERATIONS = 1 << _READ | 1 << _DELETE | 1 << _DESCRIBE


@handles(DescribeGroupsRequest, on_each(Operation.DESCRIBE, ResourceType.GROUP))
async def describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    services = context.services
    groups: list[DescribedGroup] = []
    async with services.serial_queue.begin(len(request.groups)) as slices:
        async for group_id in slices.over(request.groups):
            group = services.groups.describe_group(group_id)
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_GROUP_OPERATIONS
            groups.append(group)
        return DescribeGroupsResponse(groups=groups)
