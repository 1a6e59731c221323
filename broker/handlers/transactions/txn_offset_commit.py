"""TxnOffsetCommit (key 28): a producer stores how far a group has read, as part of its transaction.

Behaviour: topics and partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, and the others are stored; when none exists
the coordinator is not called. Clients before version 2 do not know COORDINATOR_LOAD_IN_PROGRESS here, and get
COORDINATOR_NOT_AVAILABLE.
Rights: on the transactional id and the group for the whole request, then on each topic.
Source: Kafka KafkaApis.handleTxnOffsetCommitRequest; KIP-98, KIP-447 (member and generation), KIP-890 (verification).
"""

from __future__ import annotations

from broker.handlers.groups.offset_rows import rows_for_coordinator, rows_of_response
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from security.access import Operation, ResourceType, on_each, on_named

_LOADING_SINCE = 2


@handles(
    TxnOffsetCommitRequest,
    (
        on_named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        on_named(Operation.READ, ResourceType.GROUP, "group_id"),
        on_each(Operation.READ, ResourceType.TOPIC),
    ),
    errors=ErrorForm({"topics": "topics"}),
)
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: RequestContext, may_read: Rights
) -> TxnOffsetCommitResponse:
    services = context.services
    rows_count = sum(len(topic.partitions) for topic in request.topics)
    async with services.serial_queue.begin(rows_count) as slices:
        existing = await rows_for_coordinator(request.topics, may_read, services.metadata.image, slices)
    stored: list[TxnOffsetCommitResponseTopic] = []
    if existing:
        to_coordinator = TxnOffsetCommitRequest(
            transactional_id=request.transactional_id,
            group_id=request.group_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=existing,
        )
        response = await services.groups.commit_offsets_in_transaction(to_coordinator, context.api_version)
        stored = response.topics
    async with services.serial_queue.begin(rows_count) as slices:
        make_row = TxnOffsetCommitResponsePartition if context.api_version >= _LOADING_SINCE else _row_of_old_client
        rows = await rows_of_response(request.topics, stored, may_read, TxnOffsetCommitResponseTopic, make_row, slices)
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=rows)


def _row_of_old_client(*, partition_index: int, error_code: int) -> TxnOffsetCommitResponsePartition:
    if error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponsePartition(partition_index=partition_index, error_code=error_code)
