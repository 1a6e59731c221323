"""LeaderAndIsr (key 4): the controller sends this broker its partitions, with their leaders and ISRs.

Behaviour: accepted only from the controller (`broker.cluster.control_requests`): a request for an earlier registration of this
broker gets STALE_BROKER_EPOCH, one from another sender STALE_CONTROLLER_EPOCH, and nothing is changed. Every partition has its
own error in the response, also in that to a refused request. Served before the broker is ready.
Versions: v0 and v1 do not group partitions by topic; v2 broker epochs; v5 topic ids, and responses by id.
Source: KIP-380, KIP-516; Kafka KafkaApis.handleLeaderAndIsrRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from security.access import Operation, on_cluster

_ANSWERS_BY_ID_SINCE = 5


@handles(
    LeaderAndIsrRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    errors=ErrorForm(
        {"topics": "topic_states", "partition_errors": "ungrouped_partition_states topic_states.partition_states"}
    ),
)
async def leader_and_isr(request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    control = context.services.control
    refusal = await control.refusal(request)
    if refusal is not ErrorCode.NONE:
        raise KafkaError(refusal)
    answer = await control.on_leader_and_isr(request)
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code))
    if context.api_version >= _ANSWERS_BY_ID_SINCE:
        return LeaderAndIsrResponse(error_code=answer.error_code, topics=answer.topics)
    return LeaderAndIsrResponse(error_code=answer.error_code, partition_errors=answer.partition_errors)
