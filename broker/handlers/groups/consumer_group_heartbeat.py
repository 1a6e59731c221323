"""ConsumerGroupHeartbeat (key 68): a member of a group with broker-side assignment joins, reports and leaves (KIP-848).

Behaviour: advertised and refused, as by Apache Kafka in ZooKeeper mode: UNSUPPORTED_VERSION to everybody. Clients report this
error to their application, and the log has a warning.
Source: Kafka KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from security.access import NOTHING

# Java's clients log it; Apache Kafka sends none.
MESSAGE = "This broker serves the classic group protocol only: set group.protocol=classic."


@handles(ConsumerGroupHeartbeatRequest, NOTHING, versions="0")
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    context.services.client_warnings.unserved_group_protocol(context, request.group_id)
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=MESSAGE,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
