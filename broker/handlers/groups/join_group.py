"""JoinGroup (key 11): become a member of a group, or of its next generation.

Behaviour: the response is sent at the end of the rebalance. Static members are refused if brokers of the cluster may not know
them (`inter.broker.protocol.version` below 2.3): UNSUPPORTED_VERSION, here and in their other requests but LeaveGroup.
Versions below 7 get "" in place of null for no protocol.
Source: Kafka KafkaApis.handleJoinGroupRequest.
"""

from __future__ import annotations

from broker.handlers.groups.client_address import java_address_text
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID, join_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from security.access import Operation, ResourceType, on_named

_NULLABLE_PROTOCOL_NAME_SINCE = 7


@handles(JoinGroupRequest, on_named(Operation.READ, ResourceType.GROUP, "group_id"))
async def join_group(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    groups = context.services.groups
    if groups.refuses(request.group_instance_id):
        response = join_error(UNKNOWN_MEMBER_ID, ErrorCode.UNSUPPORTED_VERSION)
    else:
        response = await groups.join_group(
            request, context.api_version, context.client_id or "", java_address_text(context.client_host)
        )
    if context.api_version < _NULLABLE_PROTOCOL_NAME_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response
