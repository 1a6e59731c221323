"""The response to a fetch, once its records are read: which partitions it includes, and their rows.

Rules: a session omits partitions that have not changed for its client (KIP-227); the session's state of each partition that
was read is updated here, whether the response includes it or not.
Source: KIP-227, 320, 392, 951; Kafka KafkaApis.handleFetchRequest (processResponseCallback), FetchSession.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.handlers.partition_lookup import endpoints_of, known_leader
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from replication.fetch_read import NO_ERROR, NO_REPLICA, FetchReader, PartitionRead
from replication.fetch_sessions import NO_SESSION, TOPIC_IDS_VERSION, ResolvedFetch

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext

NO_OFFSET = -1
LEADER_HINT_VERSION = 16
# Older clients do not know the error, and would not look for another leader.
STORAGE_ERROR_VERSION = 6
# Errors after which a client must look for another leader: the response names it (KIP-951).
LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def refused(request: FetchRequest, version: int, error: ErrorCode, _message: str | None = None) -> FetchResponse:
    """Return `error` for the whole request, and for each partition named: versions below 7 have no top-level error."""
    topics = request.topics if version < TOPIC_IDS_VERSION else []
    return FetchResponse(
        error_code=error,
        session_id=NO_SESSION,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=row.partition,
                        error_code=error,
                        high_watermark=NO_OFFSET,
                        last_stable_offset=NO_OFFSET,
                        log_start_offset=NO_OFFSET,
                        records=None,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


# The bytes of a response, of the row of a partition in it, without names, and of a row's aborted transaction.
_RESPONSE_BYTES, _ROW_BYTES, _TOPIC_BYTES, _ABORTED_BYTES = 18, 48, 6, 16


def response_bytes(reads: Sequence[PartitionRead]) -> int:
    """Return about how many bytes the response to `reads` will have."""
    size = _RESPONSE_BYTES
    for read in reads:
        size += _ROW_BYTES + _TOPIC_BYTES + len(read.item.topic) + (len(read.records) if read.records else 0)
        size += _ABORTED_BYTES * len(read.aborted or ())
    return size


def throttled_response(resolved: ResolvedFetch, throttle_time_ms: int) -> FetchResponse:
    """Return the response to a consumer above its quota: no records, and no session that was not there before."""
    session_id = resolved.session_id if resolved.is_incremental else NO_SESSION
    return FetchResponse(throttle_time_ms=throttle_time_ms, session_id=session_id, responses=[])


def response_of(
    reads: Sequence[PartitionRead],
    resolved: ResolvedFetch,
    reader: FetchReader,
    context: RequestContext,
    before: FetchResponse | None = None,
    *,
    is_last: bool = True,
) -> FetchResponse:
    """Build the response. Unless `is_last`, the caller passes the next reads, with this response as `before`."""
    sessions, session = context.services.fetch_sessions, resolved.session
    if not sessions.is_current(resolved):
        return FetchResponse(
            error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id, responses=[]
        )
    topics: list[FetchableTopicResponse] = []
    topic_key: str | bytes | None = None
    leaders: set[int] = set()
    if before is not None:
        topics = before.responses
        leaders.update(endpoint.node_id for endpoint in before.node_endpoints)
        if topics:
            topic_key = topics[-1].topic or topics[-1].topic_id
    for read in reads:
        item = read.item
        records_bytes = len(read.records) if read.records else 0
        row = _row_for(read, records_bytes, resolved, reader, context)
        if row is not None and sessions.include(resolved, item, row, records_bytes):
            if read.error in LEADER_ERRORS and context.api_version >= LEADER_HINT_VERSION:
                _name_leader(read, row, context, leaders)
            if records_bytes:
                _note_sent(read, records_bytes, reader, context)
            if topic_key != (item.topic or item.topic_id):
                topic_key = item.topic or item.topic_id
                topics.append(FetchableTopicResponse(topic=item.topic, topic_id=item.topic_id, partitions=[]))
            topics[-1].partitions.append(row)
        if session.is_kept:
            session.settle(item, has_more=read.has_more(reader))
    if is_last:
        session.end()
    return FetchResponse(
        error_code=NO_ERROR,
        session_id=session.session_id,
        responses=topics,
        node_endpoints=endpoints_of(leaders, context, NodeEndpoint) if leaders else [],
    )


def _row_for(
    read: PartitionRead, records_bytes: int, resolved: ResolvedFetch, reader: FetchReader, context: RequestContext
) -> PartitionData | None:
    """Return the row, or None for most partitions without records that `include` would omit: no row is made for them."""
    partition = read.partition
    if partition is not None and not read.ends_waiting:
        if reader.is_replica:  # parked for records alone, it was not woken by commits since
            read.high_watermark = partition.high_watermark
        if not records_bytes and context.services.fetch_sessions.is_unchanged(
            resolved, read.item, read.high_watermark, read.log_start_offset
        ):
            return None
    row = _row(read)
    if read.error is ErrorCode.UNKNOWN_SERVER_ERROR or read.error is ErrorCode.CORRUPT_MESSAGE:
        context.services.metrics.fetch_failed(read.item.known_topic)
    if (
        read.ends_waiting
        and read.error is ErrorCode.KAFKA_STORAGE_ERROR
        and context.api_version < STORAGE_ERROR_VERSION
    ):
        row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return row


def _note_sent(read: PartitionRead, records_bytes: int, reader: FetchReader, context: RequestContext) -> None:
    partition = read.partition
    assert partition is not None
    if reader.is_replica:
        partition.on_sent_to_replica(reader.replica_id, records_bytes)
    else:
        context.services.metrics.fetched(partition.topic, records_bytes)


def _name_leader(read: PartitionRead, row: PartitionData, context: RequestContext, leaders: set[int]) -> None:
    services, item = context.services, read.item
    topic = item.topic or services.metadata.image.names_by_id.get(item.topic_id, item.known_topic)
    known = known_leader(services, topic, item.partition)
    if known is not None:
        row.current_leader = LeaderIdAndEpoch(leader_id=known.broker_id, leader_epoch=known.leader_epoch)
        leaders.add(known.broker_id)


def _row(read: PartitionRead) -> PartitionData:
    aborted: list[AbortedTransaction] | None = None
    if read.aborted is not None and read.error is NO_ERROR:
        aborted = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in read.aborted
        ]
    elif read.is_unread:
        aborted = []
    row = PartitionData(
        partition_index=read.item.partition,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=aborted,
        records=read.records,  # type: ignore[arg-type]  # a range goes where a buffer goes, by its length
    )
    if read.preferred_read_replica != NO_REPLICA:
        row.preferred_read_replica = read.preferred_read_replica
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        row.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return row
