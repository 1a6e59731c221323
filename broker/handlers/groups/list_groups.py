"""ListGroups (key 16): the groups that this broker coordinates, by state and type.

Rights: on the cluster for all groups; otherwise those are listed that the client may describe.
Source: Kafka KafkaApis.handleListGroupsRequest; KIP-518, KIP-848.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from security.access import Operation, ResourceType, on_each


@handles(
    ListGroupsRequest,
    on_each(Operation.DESCRIBE, ResourceType.GROUP, or_on_cluster=Operation.DESCRIBE, logs_denial=False),
)
async def list_groups(request: ListGroupsRequest, context: RequestContext, may_describe: Rights) -> ListGroupsResponse:
    error, groups = await context.services.groups.list_groups(request.states_filter, request.types_filter)
    if not may_describe.are_open:
        async with context.services.serial_queue.begin(len(groups)) as slices:
            groups = [group async for group in slices.over(groups) if may_describe(group.group_id)]
    return ListGroupsResponse(error_code=error, groups=groups)
