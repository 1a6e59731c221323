"""ConsumerGroupHeartbeat (key 68): a member of a group with broker-side assignment joins, reports and leaves (KIP-848).

Behaviour: while consumer groups are not served (`group.version` is 0, or the settings leave the protocol out) everybody gets
UNSUPPORTED_VERSION, as from Apache Kafka in ZooKeeper mode. Clients report this error to their application, and the log has a
warning. Else the coordinator responds when what it tells is stored.
Rights: on the group; then on each topic that the member names. A regular expression matches only topics that the client may
describe.
Source: Kafka KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

from broker.handlers.groups.assigned_groups import check_subscription
from broker.handlers.groups.client_address import java_address_text
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from security.access import Operation, ResourceType, on_each

# Java's clients log it; Apache Kafka sends none.
MESSAGE = "This broker serves the classic group protocol only: set group.protocol=classic."


@handles(
    ConsumerGroupHeartbeatRequest,
    (on_each(Operation.READ, ResourceType.GROUP), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
)
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, may_read: Rights, may_describe: Rights
) -> ConsumerGroupHeartbeatResponse:
    services = context.services
    if not services.serves_consumer_groups():
        services.client_warnings.unserved_group_protocol(context, request.group_id)
        return ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message=MESSAGE,
            member_epoch=0,
            heartbeat_interval_ms=0,
        )
    if not may_read(request.group_id):
        raise may_read.denial(request.group_id)
    await check_subscription(context, request.subscribed_topic_names, may_describe)
    matched = None if may_describe.are_open else may_describe.unlogged()
    return await services.groups.consumer_heartbeat(
        request, context.api_version, context.client_id or "", java_address_text(context.client_host), matched
    )
