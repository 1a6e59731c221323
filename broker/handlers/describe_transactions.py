"""DescribeTransactions (key 65): state, producer and partitions of transactions, by transactional id.

Source: KIP-664; Kafka KafkaApis.handleDescribeTransactionsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from security.access import Operation, ResourceType, on_each


@handles(
    DescribeTransactionsRequest,
    (on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
)
async def describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    services = context.services
    async with services.serial_queue.begin(len(request.transactional_ids)) as slices:
        return DescribeTransactionsResponse(
            throttle_time_ms=0,
            transaction_states=[
                services.transactions.describe(transactional_id)
                async for transactional_id in slices.over(request.transactional_ids)
            ],
        )
