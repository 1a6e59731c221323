"""ShareFetch (key 78): a member of a share group acknowledges records, and acquires others.

Behaviour: the session of a member (epoch 0 begins one, -1 ends it) says which partitions are read. Acknowledgements are applied
before records are acquired; each partition has the errors of both. A response to the first epoch has all partitions, a later
one those that have news. A request that renews locks, or wants no records or no bytes, acquires nothing. With the end of the
session all that the member holds is released; the response does not tell of that, because clients expect only what they
have named.
Rights: on the group; then on each topic, looked at with each request.
Versions: v2 acquires no more than `max_records` when asked to (KIP-1206), and renews locks (KIP-1222).
Source: Kafka KafkaApis.handleShareFetchRequest (KIP-932).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.partition_lookup import KnownLeader, endpoints_of
from broker.handlers.sharing.acknowledging import (
    DONE,
    AcknowledgeOutcome,
    Acknowledging,
    check_who_asks,
    follow_connection,
    leader_to_name,
)
from broker.handlers.sharing.share_fetching import Fetched, ShareFetching
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from protocol.share_states import ShareAcquireMode
from replication.sharing.sessions import PartitionKey
from security.access import Operation, ResourceType, on_each

if TYPE_CHECKING:
    from replication.sharing.sessions import ResolvedShareSession

NOT_FETCHED = Fetched()


@handles(
    ShareFetchRequest,
    (on_each(Operation.READ, ResourceType.GROUP), on_each(Operation.READ, ResourceType.TOPIC)),
)
def share_fetch(
    request: ShareFetchRequest, context: RequestContext, may_read_group: Rights, may_read: Rights
) -> ShareFetchResponse | Deferred[ShareFetchResponse]:
    services = context.services
    group_id, member_id = request.group_id or "", request.member_id or ""
    check_who_asks(request, context, may_read_group)
    check_request(request)
    session = _session(request, context)
    acknowledging = Acknowledging(context, group_id, member_id, may_read)
    acknowledging.apply_all(request)
    if session.session is None:
        services.sharing.release(services.sharing.sessions.close(group_id, member_id))
    if request.is_renew_ack or request.max_records <= 0 or request.max_bytes <= 0:
        session.partitions.clear()  # it acquires nothing
    lock_duration_ms = services.group_configs.current.share_of(group_id).record_lock_duration_ms
    fetching = ShareFetching(request, context, session.partitions, acknowledging, may_read, lock_duration_ms)
    response = Deferred[ShareFetchResponse]()
    fetched = fetching.begin()
    response.on_abandon(fetched.abandon)
    response.on_expedite(fetched.expedite)
    fetched.then(lambda done: response.complete(_response(done, session, acknowledging, context, lock_duration_ms)))
    return response


def check_request(request: ShareFetchRequest) -> None:
    """A request that renews locks fetches nothing. Raises KafkaError."""
    if request.is_renew_ack and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.share_acquire_mode not in set(ShareAcquireMode):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request.share_acquire_mode} is no acquire mode.")


def _session(request: ShareFetchRequest, context: RequestContext) -> ResolvedShareSession:
    """Raises KafkaError."""
    sharing, connection_id = context.services.sharing, context.connection_id
    group_id, member_id = request.group_id or "", request.member_id or ""
    resolved = sharing.sessions.resolve(
        group_id,
        member_id,
        request.share_session_epoch,
        [PartitionKey(topic.topic_id, row.partition_index) for topic in request.topics for row in topic.partitions],
        [PartitionKey(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions],
        connection_id,
        has_acknowledgements=any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions),
    )
    follow_connection(context)
    return resolved


def _response(
    fetching: ShareFetching,
    session: ResolvedShareSession,
    acknowledging: Acknowledging,
    context: RequestContext,
    lock_duration_ms: int,
) -> ShareFetchResponse:
    if not session.is_current:  # the member has sent another request meanwhile
        return ShareFetchResponse(
            throttle_time_ms=fetching.throttle_time_ms,
            error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            acquisition_lock_timeout_ms=0,
            responses=[],
            node_endpoints=[],
        )
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    leaders: set[int] = set()
    for key in dict.fromkeys((*session.partitions, *fetching.fetched, *acknowledging.outcomes)):
        fetched = fetching.fetched.get(key, NOT_FETCHED)
        acknowledged = acknowledging.outcomes.get(key)
        is_included = session.include(
            key, has_records=bool(fetched.acquired), has_error=fetched.error is not ErrorCode.NONE
        )
        if not is_included and acknowledged is None:
            continue
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = ShareFetchableTopicResponse(topic_id=key.topic_id, partitions=[])
        leader = leader_to_name(context, key, (fetched.error, (acknowledged or DONE).error), leaders)
        topic.partitions.append(_row(key, fetched, acknowledged or DONE, leader))
    return ShareFetchResponse(
        throttle_time_ms=fetching.throttle_time_ms,
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints_of(leaders, context, NodeEndpoint),
    )


def _row(key: PartitionKey, fetched: Fetched, acknowledged: AcknowledgeOutcome, leader: KnownLeader) -> PartitionData:
    return PartitionData(
        partition_index=key.partition,
        error_code=fetched.error,
        error_message=fetched.message,
        acknowledge_error_code=acknowledged.error,
        acknowledge_error_message=acknowledged.message,
        current_leader=LeaderIdAndEpoch(leader_id=leader.broker_id, leader_epoch=leader.leader_epoch),
        records=fetched.records,  # type: ignore[arg-type]  # a range goes where a buffer goes, by its length
        acquired_records=fetched.acquired,
    )
