"""DeleteGroups (key 42): remove groups without members, with all their offsets.

Behaviour: a group that is named twice has one result.
Source: Kafka KafkaApis.handleDeleteGroupsRequest; KIP-229.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from security.access import Operation, ResourceType, on_each


@handles(DeleteGroupsRequest, on_each(Operation.DELETE, ResourceType.GROUP))
async def delete_groups(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    distinct = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(throttle_time_ms=0, results=await context.services.groups.delete_groups(distinct))
