"""EndTxn, by version; what it means is in tests of the coordinator."""

from __future__ import annotations

import asyncio

import pytest

from protocol.errors import ErrorCode
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import ORDERS, TransactionalClient


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_as_its_producer_says(version: int, commit: bool) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            await client.add(ORDERS)
            assert await client.end(commit=commit, version=version) is ErrorCode.NONE
            [(markers, _)] = broker.transactions.markers.asked
            assert (markers.is_commit, markers.partitions) == (commit, (ORDERS,))
            assert await client.end(commit=commit, version=version) is ErrorCode.CONCURRENT_TRANSACTIONS
            broker.transactions.markers.complete()
            assert await client.end(commit=commit, version=version) is ErrorCode.NONE
            assert await client.end(commit=not commit, version=version) is ErrorCode.INVALID_TXN_STATE
            client.epoch = 5
            fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
            assert await client.end(commit=commit, version=version) is fenced

    asyncio.run(scenario())
