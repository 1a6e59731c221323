"""DeleteGroups (key 42): remove groups without members, with all their offsets.

Behaviour: a group that is named twice has one result.
Source: Kafka KafkaApis.handleDeleteGroupsRequest; KIP-229.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from security.access import Operation, ResourceType, on_each


@handles(
    DeleteGroupsRequest,
    on_each(Operation.DELETE, ResourceType.GROUP),
    errors=ErrorForm({"results": "groups_names"}),
    audit=audit(Operation.DELETE, "GROUP", "groups_names", "results"),
)
async def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext, may_delete: Rights
) -> DeleteGroupsResponse:
    distinct = dict.fromkeys(request.groups_names)
    async with context.services.serial_queue.begin(len(distinct)) as slices:
        allowed = [group_id async for group_id in slices.over(distinct) if may_delete(group_id)]
        refused = [
            DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group_id in distinct
            if not may_delete(group_id)
        ]
    results = await context.services.groups.delete_groups(allowed) if allowed else []
    return DeleteGroupsResponse(throttle_time_ms=0, results=[*results, *refused])
