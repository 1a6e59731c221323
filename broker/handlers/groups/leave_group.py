"""LeaveGroup (key 13): one member (before version 3) or several leave.

Behaviour: below version 3 the error of the member is that of the response.
Source: Kafka KafkaApis.handleLeaveGroupRequest, LeaveGroupResponse; KIP-345.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from security.access import Operation, ResourceType, on_named

_BATCHED_SINCE = 3
# Members of one request that are removed together; one rebalance follows for all that leave before it.
_MEMBERS_STEP = 500


@handles(LeaveGroupRequest, on_named(Operation.READ, ResourceType.GROUP, "group_id"))
async def leave_group(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    groups = context.services.groups
    if context.api_version >= _BATCHED_SINCE:
        members: list[MemberResponse] = []
        async with context.services.serial_queue.begin(len(request.members)) as slices:
            async for start in slices.over(range(0, len(request.members) or 1, _MEMBERS_STEP)):
                response = groups.leave_group(request.group_id, request.members[start : start + _MEMBERS_STEP])
                if response.error_code != ErrorCode.NONE:
                    return response
                members += response.members
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
    response = groups.leave_group(request.group_id, [MemberIdentity(member_id=request.member_id)])
    if response.error_code == ErrorCode.NONE:
        return LeaveGroupResponse(error_code=response.members[0].error_code)
    return LeaveGroupResponse(error_code=response.error_code)
