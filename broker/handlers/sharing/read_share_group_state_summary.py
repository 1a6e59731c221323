"""ReadShareGroupStateSummary (key 87): the group coordinator asks where share partitions are.

Behaviour: a share partition of which nothing is stored is no error: its start offset is -1.
Versions: v1 has the records that are done with.
Source: KIP-932; Kafka KafkaApis.handleReadShareGroupStateSummaryRequest.
"""

from __future__ import annotations

from broker.handlers.sharing.state_rows import STATE_ACCESS, state_results
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.state import FIRST_EPOCH, ShareKey
from coordinator.share_coordinator import Done
from protocol.errors import ErrorCode
from protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    TopicResult,
)
from protocol.share_states import NO_START_OFFSET


@handles(
    ReadShareGroupStateSummaryRequest,
    STATE_ACCESS,
    errors=ErrorForm({"results": "topics"}),
)
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    coordinator = context.services.share_coordinator

    def begin(key: ShareKey, _row: PartitionData, done: Done) -> None:
        coordinator.read_summary(key, done)

    return ReadShareGroupStateSummaryResponse(
        results=await state_results(request, context, begin, TopicResult, _result)
    )


def _result(partition: int, outcome: ShareOutcome) -> PartitionResult:
    if outcome.error is not ErrorCode.NONE:
        return PartitionResult(
            partition=partition,
            error_code=outcome.error,
            error_message=outcome.message,
            state_epoch=0,
            leader_epoch=0,
            start_offset=0,
        )
    found = outcome.snapshot
    if found is None:
        return PartitionResult(
            partition=partition,
            error_code=ErrorCode.NONE,
            state_epoch=FIRST_EPOCH,
            leader_epoch=FIRST_EPOCH,
            start_offset=NO_START_OFFSET,
        )
    return PartitionResult(
        partition=partition,
        error_code=ErrorCode.NONE,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
    )
