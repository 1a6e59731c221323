"""ShareGroupHeartbeat (key 76): a member of a share group joins, reports and leaves (KIP-932).

Behaviour: UNSUPPORTED_VERSION while `share.version` is 0. The coordinator responds when what it tells is stored.
Rights: on the group; then on each topic that the member names.
Source: Kafka KafkaApis.handleShareGroupHeartbeat.
"""

from __future__ import annotations

from broker.handlers.groups.assigned_groups import check_share_member_id, check_shares_are_served, check_subscription
from broker.handlers.groups.client_address import java_address_text
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from security.access import Operation, ResourceType, on_each


@handles(
    ShareGroupHeartbeatRequest,
    (on_each(Operation.READ, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
)
async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: RequestContext, may_read: Rights, may_describe: Rights
) -> ShareGroupHeartbeatResponse:
    services = context.services
    check_shares_are_served(context)
    if not may_read(request.group_id):
        raise may_read.denial(request.group_id)
    check_share_member_id(request.member_id)
    await check_subscription(context, request.subscribed_topic_names, may_describe)
    return await services.groups.share_heartbeat(
        request, context.client_id or "", java_address_text(context.client_host)
    )
