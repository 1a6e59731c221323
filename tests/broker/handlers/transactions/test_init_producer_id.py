"""InitProducerId of transactional producers, by version."""

from __future__ import annotations

import asyncio

import pytest

from protocol.errors import ErrorCode
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import ORDERS, TransactionalClient


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_the_next_epoch(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            for epoch in range(3):
                assert await client.init(version) is ErrorCode.NONE
                assert (client.producer_id, client.epoch) == (1000, epoch)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "timeout_ms", "error"),
    [
        ("", 60_000, ErrorCode.INVALID_REQUEST),
        ("", 0, ErrorCode.INVALID_REQUEST),
        ("t", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("t", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("t", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("t", 900_000, ErrorCode.NONE),
        ("t", 1, ErrorCode.NONE),
    ],
)
def test_names_and_timeouts(name: str, timeout_ms: int, error: ErrorCode) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            assert await TransactionalClient(broker, name).init(timeout_ms=timeout_ms) is error

    asyncio.run(scenario())


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_versions_before_4_know_a_fenced_producer_by_its_old_name(version: int, error: ErrorCode) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            assert await client.init(version, expected=(client.producer_id, 7)) is error
            assert await client.init(version, expected=(client.producer_id, 0)) is ErrorCode.NONE
            assert client.epoch == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("expected", [(5, -1), (-1, 5)])
def test_an_id_without_an_epoch_is_no_request(expected: tuple[int, int]) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            assert await TransactionalClient(broker).init(expected=expected) is ErrorCode.INVALID_REQUEST

    asyncio.run(scenario())


def test_an_open_transaction_is_aborted_first() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            await client.add(ORDERS)
            assert await client.init() is ErrorCode.CONCURRENT_TRANSACTIONS
            broker.transactions.markers.complete()
            assert await client.init() is ErrorCode.NONE
            assert client.epoch == 2

    asyncio.run(scenario())
