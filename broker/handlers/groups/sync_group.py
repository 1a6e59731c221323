"""SyncGroup (key 14): the leader sends the assignment, and every member gets its part.

Behaviour: the response is sent when the assignment is stored. From version 5 on the request must have the protocol.
Rights: checked after the protocol, as in Kafka.
Source: Kafka KafkaApis.handleSyncGroupRequest; KIP-559.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from security.access import Operation, ResourceType, on_each

_PROTOCOL_REQUIRED_SINCE = 5


@handles(SyncGroupRequest, on_each(Operation.READ, ResourceType.GROUP))
async def sync_group(request: SyncGroupRequest, context: RequestContext, may_read: Rights) -> SyncGroupResponse:
    if context.services.groups.refuses(request.group_instance_id):
        return SyncGroupResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, assignment=b"")
    if context.api_version >= _PROTOCOL_REQUIRED_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    if not may_read(request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, assignment=b"")
    return await context.services.groups.sync_group(request)
