"""ListTransactions (key 66): the transactional ids that this broker coordinates, by state, producer id and duration.

Behaviour: names of states that do not exist are named in the response; nothing passes them.
Rights: transactional ids that the client may not describe are left out.
Versions: v1 has the filter by duration (KIP-994), v2 that by a regular expression, which has to match the whole id (KIP-1152).
Source: KIP-664; Kafka KafkaApis.handleListTransactionsRequest.
"""

from __future__ import annotations

from functools import partial

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from coordinator.group.consumer.patterns import invalid_text, resolve
from coordinator.transaction.descriptions import TransactionFilter, unknown_states
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from security.access import Operation, ResourceType, on_each


@handles(ListTransactionsRequest, on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID))
async def list_transactions(
    request: ListTransactionsRequest, context: RequestContext, may_describe: Rights
) -> ListTransactionsResponse:
    pattern = request.transactional_id_pattern
    if pattern and invalid_text(pattern) is not None:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION)
    wanted = TransactionFilter(
        frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter
    )
    error, states = await context.services.transactions.list_transactions(wanted)
    async with context.services.serial_queue.begin(len(states)) as slices:
        states = [state async for state in slices.over(states) if may_describe(state.transactional_id)]
    if pattern:
        ids = [state.transactional_id for state in states]
        matching = (await context.services.readers.run(partial(resolve, [pattern], ids)))[pattern]
        states = [state for state in states if state.transactional_id in matching]
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=error,
        unknown_state_filters=unknown_states(request.state_filters) if error is ErrorCode.NONE else [],
        transaction_states=states,
    )
