"""ReadShareGroupState (key 84): the leader of a partition begins with what is stored of its share partitions.

Behaviour: a newer leader becomes known by it: the response is sent when that is committed.
Source: KIP-932; Kafka KafkaApis.handleReadShareGroupStateRequest.
"""

from __future__ import annotations

from broker.handlers.sharing.state_rows import STATE_ACCESS, state_results
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import Done
from protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    StateBatch,
    TopicResult,
)


@handles(
    ReadShareGroupStateRequest,
    STATE_ACCESS,
    errors=ErrorForm({"results": "topics"}),
)
async def read_share_group_state(
    request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    coordinator = context.services.share_coordinator

    def begin(key: ShareKey, row: PartitionData, done: Done) -> None:
        coordinator.read(key, row.leader_epoch, done)

    return ReadShareGroupStateResponse(results=await state_results(request, context, begin, TopicResult, _result))


def _result(partition: int, outcome: ShareOutcome) -> PartitionResult:
    found = outcome.snapshot
    return PartitionResult(
        partition=partition,
        error_code=outcome.error,
        error_message=outcome.message,
        state_epoch=0 if found is None else found.state_epoch,
        start_offset=0 if found is None else found.start_offset,
        state_batches=[
            StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, count, state in (() if found is None else found.batches)
        ],
    )
