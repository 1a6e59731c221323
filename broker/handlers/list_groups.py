"""ListGroups (key 16): the groups that this broker coordinates, by state and type.

Source: Kafka KafkaApis.handleListGroupsRequest; KIP-518, KIP-848.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from security.access import Operation, ResourceType, on_each


@handles(
    ListGroupsRequest,
    (on_each(Operation.DESCRIBE, ResourceType.CLUSTER), on_each(Operation.DESCRIBE, ResourceType.GROUP)),
)
async def list_groups(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    error, groups = await context.services.groups.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(error_code=error, groups=groups)
