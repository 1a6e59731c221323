"""Heartbeat (key 12): a member shows that it is alive, and gets an error if its group rebalances.

Source: Kafka KafkaApis.handleHeartbeatRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from security.access import Operation, ResourceType, on_named


@handles(HeartbeatRequest, on_named(Operation.READ, ResourceType.GROUP, "group_id"))
async def heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    groups = context.services.groups
    if groups.refuses(request.group_instance_id):
        return HeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return HeartbeatResponse(error_code=groups.heartbeat(request))
