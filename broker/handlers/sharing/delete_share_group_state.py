"""DeleteShareGroupState (key 86): the group coordinator deletes what is stored of share partitions.

Source: KIP-932; Kafka KafkaApis.handleDeleteShareGroupStateRequest.
"""

from __future__ import annotations

from broker.handlers.sharing.state_rows import STATE_ACCESS, state_results
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import Done
from protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    PartitionData,
    PartitionResult,
    TopicResult,
)


@handles(
    DeleteShareGroupStateRequest,
    STATE_ACCESS,
    errors=ErrorForm({"results": "topics"}),
)
async def delete_share_group_state(
    request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    coordinator = context.services.share_coordinator

    def begin(key: ShareKey, _row: PartitionData, done: Done) -> None:
        coordinator.delete(key, done)

    return DeleteShareGroupStateResponse(results=await state_results(request, context, begin, TopicResult, _result))


def _result(partition: int, outcome: ShareOutcome) -> PartitionResult:
    return PartitionResult(partition=partition, error_code=outcome.error, error_message=outcome.message)
