"""ListTransactions and DescribeTransactions of a coordinator that is not active."""

from __future__ import annotations

import asyncio

from broker.handlers.transactions.describe_transactions import describe_transactions
from broker.handlers.transactions.list_transactions import list_transactions
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import ask


def test_a_coordinator_that_is_not_active_has_nothing_to_show() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.transactions.coordinator.close()
            unknown = ListTransactionsRequest(state_filters=["Nonsense"], producer_id_filters=[])
            response = await ask(list_transactions, broker, unknown, 1)
            assert (response.error_code, response.unknown_state_filters) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
            request = DescribeTransactionsRequest(transactional_ids=["a", ""])
            described = await ask(describe_transactions, broker, request, 0)
            assert {row.error_code for row in described.transaction_states} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    asyncio.run(scenario())
