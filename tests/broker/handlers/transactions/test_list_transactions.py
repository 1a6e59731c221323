"""ListTransactions and DescribeTransactions, as administrators ask."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.handlers.transactions.describe_transactions import describe_transactions
from broker.handlers.transactions.list_transactions import list_transactions
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import ORDERS, TransactionalClient, ask


async def listed(broker: GroupBroker, version: int = 1, **filters: Any) -> Any:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    for name, value in filters.items():
        setattr(request, name, value)
    return await ask(list_transactions, broker, request, version)


def test_transactions_of_all_partitions_are_listed_and_described() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for name in "abcdef":
                client = TransactionalClient(broker, name)
                await client.init()
                if name in "ab":
                    await client.add(ORDERS)
            response = await listed(broker)
            assert sorted(row.transactional_id for row in response.transaction_states) == list("abcdef")
            response = await listed(broker, state_filters=["Ongoing", "Nonsense"])
            assert response.unknown_state_filters == ["Nonsense"]
            assert sorted(row.transactional_id for row in response.transaction_states) == ["a", "b"]
            response = await listed(broker, 0, producer_id_filters=[1003])
            assert [row.transactional_id for row in response.transaction_states] == ["d"]
            broker.world.call_later.advance(1_000)
            response = await listed(broker, duration_filter=999, state_filters=["Ongoing"])
            assert len(response.transaction_states) == 2
            response = await listed(broker, duration_filter=1_000, state_filters=["Ongoing"])
            assert response.transaction_states == []
            request = DescribeTransactionsRequest(transactional_ids=["a", "c", "none", ""])
            described = await ask(describe_transactions, broker, request, 0)
            assert [(row.error_code, row.transaction_state) for row in described.transaction_states] == [
                (ErrorCode.NONE, "Ongoing"),
                (ErrorCode.NONE, "Empty"),
                (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
                (ErrorCode.INVALID_REQUEST, ""),
            ]

    asyncio.run(scenario())


def test_a_coordinator_that_is_not_active_has_nothing_to_show() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.transactions.coordinator.close()
            response = await listed(broker, state_filters=["Nonsense"])
            assert (response.error_code, response.unknown_state_filters) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
            request = DescribeTransactionsRequest(transactional_ids=["a", ""])
            described = await ask(describe_transactions, broker, request, 0)
            assert {row.error_code for row in described.transaction_states} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    asyncio.run(scenario())
