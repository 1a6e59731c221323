"""JoinGroup (key 11): become a member of a group, or of its next generation.

Behaviour: answered when the rebalance is over. Versions below 7 cannot say "no protocol" with null and get "".
Source: Kafka KafkaApis.handleJoinGroupRequest.
"""

from __future__ import annotations

from broker.context import RequestContext
from broker.dispatch import handles
from broker.handlers.client_address import java_address_text
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_NULLABLE_PROTOCOL_NAME_SINCE = 7


@handles(JoinGroupRequest)
async def join_group(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    response = await context.services.groups.join_group(
        request, context.api_version, context.client_id or "", java_address_text(context.client_host)
    )
    if context.api_version < _NULLABLE_PROTOCOL_NAME_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response
