"""WriteShareGroupState (key 85): the leader of a partition has stored what changed in its share partitions.

Behaviour: the response is sent when everything is committed.
Source: KIP-932; Kafka KafkaApis.handleWriteShareGroupStateRequest.
"""

from __future__ import annotations

from broker.handlers.sharing.state_rows import STATE_ACCESS, state_results
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from coordinator.share.batches import kept_of
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.shard import StateWrite
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import Done
from protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    TopicResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)


@handles(
    WriteShareGroupStateRequest,
    STATE_ACCESS,
    errors=ErrorForm({"results": "topics"}),
)
async def write_share_group_state(
    request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    coordinator = context.services.share_coordinator

    def begin(key: ShareKey, row: PartitionData, done: Done) -> None:
        batches = kept_of(
            (each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
            for each in row.state_batches
        )
        change = StateWrite(row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count, batches)
        coordinator.write(key, change, done)

    return WriteShareGroupStateResponse(results=await state_results(request, context, begin, TopicResult, _result))


def _result(partition: int, outcome: ShareOutcome) -> PartitionResult:
    return PartitionResult(partition=partition, error_code=outcome.error, error_message=outcome.message)
