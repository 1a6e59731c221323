"""DescribeTransactions (key 65): state, producer and partitions of transactions, by transactional id.

Rights: on each transactional id; topics that the client may not describe are left out.
Source: KIP-664; Kafka KafkaApis.handleDescribeTransactionsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.transaction.descriptions import described_error
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from security.access import Operation, ResourceType, on_each


@handles(
    DescribeTransactionsRequest,
    (on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"transaction_states": "transactional_ids"}, transaction_state=""),
)
async def describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext, may_describe: Rights, may_describe_topic: Rights
) -> DescribeTransactionsResponse:

    def described(transactional_id: str) -> TransactionState:
        if not may_describe(transactional_id):
            return described_error(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        state = context.services.transactions.describe(transactional_id)
        state.topics = [topic for topic in state.topics if may_describe_topic(topic.topic)]
        return state

    async with context.services.serial_queue.begin(len(request.transactional_ids)) as slices:
        return DescribeTransactionsResponse(
            throttle_time_ms=0,
            transaction_states=[
                described(transactional_id) async for transactional_id in slices.over(request.transactional_ids)
            ],
        )
