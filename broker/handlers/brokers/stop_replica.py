"""StopReplica (key 5): the controller stops replicas of this broker, and may delete them.

Behaviour: as LeaderAndIsr, accepted only from the controller. Every partition has its own error in the response. Served
before the broker is ready.
Versions: v0 does not group partitions by topic; v1 broker epochs; v3 leader epochs, and deletion partition by partition.
Source: KIP-380, KIP-570; Kafka KafkaApis.handleStopReplicaRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from security.access import Operation, on_cluster


@handles(
    StopReplicaRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    errors=ErrorForm(
        {"partition_errors": "ungrouped_partitions topics.partition_indexes topic_states.partition_states"}
    ),
)
async def stop_replica(request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    control = context.services.control
    refusal = await control.refusal(request)
    if refusal is not ErrorCode.NONE:
        return StopReplicaResponse(error_code=refusal, partition_errors=[])
    return await control.on_stop_replica(request)
