"""A client that asks for a transaction is named in the log: once for each client id, with bounded memory."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.find_coordinator import find_coordinator
from broker.handlers.init_producer_id import init_producer_id
from broker.observability.transaction_requests import MAX_CLIENT_ID_CHARS, MAX_CLIENTS
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.handlers.group_world import GroupBroker

INIT = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
FIND = FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])


async def ask_to_begin(broker: GroupBroker, client_id: str | None, host: str = "192.0.2.7") -> None:
    broker.settings.transaction_max_timeout_ms = 900_000
    response = await init_producer_id(INIT, broker.context(4, client_id=client_id, host=host))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_both_requests_name_the_client_and_its_address(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await find_coordinator(FIND, broker.context(4, client_id="billing", host="192.0.2.7"))
            await ask_to_begin(broker, "shipping", "192.0.2.8")

    asyncio.run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[2] for line in lines] == [
        "client_id='billing' address=192.0.2.7:50000 api=FindCoordinator",
        "client_id='shipping' address=192.0.2.8:50000 api=InitProducerId",
    ]


def test_a_client_that_asks_again_is_not_named_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for _ in range(3):
                await find_coordinator(FIND, broker.context(4, client_id="billing"))
                await ask_to_begin(broker, "billing")
                await ask_to_begin(broker, None)

    asyncio.run(scenario())
    assert len(caplog.records) == 2


def test_requests_that_open_no_transaction_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await find_coordinator(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), broker.context(4))

    asyncio.run(scenario())
    assert not caplog.records


def test_clients_with_ever_new_ids_fill_neither_memory_nor_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for number in range(MAX_CLIENTS + 50):
                await ask_to_begin(broker, f"{number}-" + "x" * 1_000)

    asyncio.run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == MAX_CLIENTS + 1
    assert lines[-1] == f"further clients that ask for a transaction are not logged: clients={MAX_CLIENTS}"
    assert max(map(len, lines)) < MAX_CLIENT_ID_CHARS + 200
