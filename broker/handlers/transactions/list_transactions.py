"""ListTransactions (key 66): the transactional ids that this broker coordinates, by state, producer id and duration.

Behaviour: names of states that do not exist are named in the response; nothing passes them.
Rights: transactional ids that the client may not describe are left out.
Versions: v1 has the filter by duration (KIP-994).
Source: KIP-664; Kafka KafkaApis.handleListTransactionsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from coordinator.transaction.descriptions import TransactionFilter, unknown_states
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from security.access import Operation, ResourceType, on_each


@handles(ListTransactionsRequest, on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), versions="0-1")
async def list_transactions(
    request: ListTransactionsRequest, context: RequestContext, may_describe: Rights
) -> ListTransactionsResponse:
    wanted = TransactionFilter(
        frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter
    )
    error, states = await context.services.transactions.list_transactions(wanted)
    async with context.services.serial_queue.begin(len(states)) as slices:
        states = [state async for state in slices.over(states) if may_describe(state.transactional_id)]
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=error,
        unknown_state_filters=unknown_states(request.state_filters) if error is ErrorCode.NONE else [],
        transaction_states=states,
    )
