"""ShareAcknowledge (key 79): a member of a share group says what became of records that it has acquired.

Behaviour: each partition has its own outcome, which is stored before the response. Epoch -1 ends the session: all else that the
member holds is released, of which the response does not tell: clients expect only what they have named.
Rights: on the group; then on each topic.
Versions: v2 renews locks (KIP-1222), and tells for how long.
Source: Kafka KafkaApis.handleShareAcknowledgeRequest (KIP-932).
"""

from __future__ import annotations

from broker.handlers.partition_lookup import endpoints_of
from broker.handlers.sharing.acknowledging import Acknowledging, check_who_asks, follow_connection, leader_to_name
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode
from protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from replication.sharing.sessions import FINAL_EPOCH
from security.access import Operation, ResourceType, on_each


@handles(
    ShareAcknowledgeRequest,
    (on_each(Operation.READ, ResourceType.GROUP), on_each(Operation.READ, ResourceType.TOPIC)),
)
def share_acknowledge(
    request: ShareAcknowledgeRequest, context: RequestContext, may_read_group: Rights, may_read: Rights
) -> Deferred[ShareAcknowledgeResponse]:
    services = context.services
    group_id, member_id = request.group_id or "", request.member_id or ""
    check_who_asks(request, context, may_read_group)
    sessions, epoch = services.sharing.sessions, request.share_session_epoch
    sessions.acknowledge(group_id, member_id, epoch, context.connection_id)
    follow_connection(context)
    acknowledging = Acknowledging(context, group_id, member_id, may_read)
    acknowledging.apply_all(request)
    if epoch == FINAL_EPOCH:
        services.sharing.release(sessions.close(group_id, member_id))
    response = Deferred[ShareAcknowledgeResponse]()
    lock_duration_ms = services.group_configs.current.share_of(group_id).record_lock_duration_ms
    acknowledging.when_done(lambda: response.complete(_response(acknowledging, context, lock_duration_ms)))
    return response


def _response(acknowledging: Acknowledging, context: RequestContext, lock_duration_ms: int) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: set[int] = set()
    for key, outcome in acknowledging.outcomes.items():
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = ShareAcknowledgeTopicResponse(topic_id=key.topic_id, partitions=[])
        leader = leader_to_name(context, key, [outcome.error], leaders)
        row = PartitionData(
            partition_index=key.partition,
            error_code=outcome.error,
            error_message=outcome.message,
            current_leader=LeaderIdAndEpoch(leader_id=leader.broker_id, leader_epoch=leader.leader_epoch),
        )
        topic.partitions.append(row)
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints_of(leaders, context, NodeEndpoint),
    )
