"""TxnOffsetCommit (key 28): a producer stores how far a group has read, as part of its transaction.

Behaviour: topics and partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, and the others are stored; when none exists
the coordinator is not called. Clients before version 2 do not know COORDINATOR_LOAD_IN_PROGRESS here, and get
COORDINATOR_NOT_AVAILABLE.
Rights: on the transactional id and the group for the whole request, then on each topic.
Source: Kafka KafkaApis.handleTxnOffsetCommitRequest; KIP-98, KIP-447 (member and generation), KIP-890 (verification).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.handlers.partition_lookup import missing_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from metadata.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from runtime.slices import Slices
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
        allowed = [topic async for topic in slices.over(request.topics) if may_read(topic.name)]
        existing = await _existing_topics(allowed, services.metadata.image, slices)
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
        return await _merged(request, stored, may_read, context.api_version, slices)


async def _existing_topics(
    topics: list[TxnOffsetCommitRequestTopic], image: ClusterImage, slices: Slices
) -> list[TxnOffsetCommitRequestTopic]:
    """Return the partitions that exist. If one has several rows, the last one counts."""
    existing: dict[str, dict[int, TxnOffsetCommitRequestPartition]] = {}
    async for topic in slices.over(topics):
        async for row in slices.over(topic.partitions):
            if image.partition(topic.name, row.partition_index) is not None:
                existing.setdefault(topic.name, {})[row.partition_index] = row
    return [
        TxnOffsetCommitRequestTopic(name=name, partitions=list(partitions.values()))
        for name, partitions in existing.items()
    ]


async def _merged(
    request: TxnOffsetCommitRequest,
    stored: Iterable[TxnOffsetCommitResponseTopic],
    may_read: Callable[[str], bool],
    api_version: int,
    slices: Slices,
) -> TxnOffsetCommitResponse:
    """Return one row for each partition of the request, in its order; those that do not exist, or are hidden, have no row in
    `stored`."""
    errors = {(topic.name, row.partition_index): row.error_code for topic in stored for row in topic.partitions}
    rows: dict[str, dict[int, TxnOffsetCommitResponsePartition]] = {}
    async for topic in slices.over(request.topics):
        missing = missing_error(may_read(topic.name))
        async for wanted in slices.over(topic.partitions):
            index = wanted.partition_index
            error = errors.get((topic.name, index), missing)
            if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < _LOADING_SINCE:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            row = TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
            rows.setdefault(topic.name, {})[index] = row
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            TxnOffsetCommitResponseTopic(name=name, partitions=list(of_topic.values()))
            for name, of_topic in rows.items()
        ],
    )
