"""InitializeShareGroupState (key 83): the group coordinator gives share partitions their first state, or another start.

Source: KIP-932; Kafka KafkaApis.handleInitializeShareGroupStateRequest.
"""

from __future__ import annotations

from broker.handlers.sharing.state_rows import STATE_ACCESS, state_results
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import Done
from protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    PartitionData,
    PartitionResult,
    TopicResult,
)


@handles(
    InitializeShareGroupStateRequest,
    STATE_ACCESS,
    errors=ErrorForm({"results": "topics"}),
)
async def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    coordinator = context.services.share_coordinator

    def begin(key: ShareKey, row: PartitionData, done: Done) -> None:
        coordinator.initialize(key, row.state_epoch, row.start_offset, done)

    return InitializeShareGroupStateResponse(results=await state_results(request, context, begin, TopicResult, _result))


def _result(partition: int, outcome: ShareOutcome) -> PartitionResult:
    return PartitionResult(partition=partition, error_code=outcome.error, error_message=outcome.message)
