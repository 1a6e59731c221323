"""FindCoordinator: who coordinates, and how Kafka words it when nobody does (recorded from Apache Kafka 3.9.1)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.handlers.groups.find_coordinator import find_coordinator
from coordinator.runtime.partitioner import partition_for
from metadata.image import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, BrokerEndpoint, BrokerImage
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.handlers.group_world import BROKER_ID, LISTENER, GroupBroker


async def ask(
    broker: GroupBroker, version: int, key_type: int = 0, keys: tuple[str, ...] = ("g",)
) -> FindCoordinatorResponse:
    if version >= 4:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    else:
        request = FindCoordinatorRequest(key=keys[0], key_type=key_type)
    response = await find_coordinator(request, broker.context(version))
    assert isinstance(response, FindCoordinatorResponse)
    response.encode(version)
    return response


def rows(response: FindCoordinatorResponse) -> list[tuple[int, int, str, int, str | None]]:
    if not response.coordinators:
        each = response
        return [(each.error_code, each.node_id, each.host, each.port, each.error_message)]
    return [(row.error_code, row.node_id, row.host, row.port, row.error_message) for row in response.coordinators]


@pytest.mark.parametrize("version", range(7))
def test_the_leader_of_the_groups_partition_coordinates(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await ask(broker, version)
            message = "NONE" if version < 4 else ""
            assert rows(response) == [(ErrorCode.NONE, BROKER_ID, "broker.example", 9092, message)]
            assert broker.topics.wanted == []

    asyncio.run(scenario())


def test_several_keys_have_a_row_each_and_the_empty_one_is_no_exception() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await ask(broker, 4, keys=("g", "", "h"))
            assert [row.key for row in response.coordinators] == ["g", "", "h"]
            assert {row.error_code for row in response.coordinators} == {ErrorCode.NONE}

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(7))
def test_the_internal_topic_is_made_when_it_is_missing(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.publish({"orders": [BROKER_ID]})
            response = await ask(broker, version)
            message = ErrorCode.COORDINATOR_NOT_AVAILABLE.message if version < 4 else ""
            assert rows(response) == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1, message)]
            assert broker.topics.wanted == [GROUP_METADATA_TOPIC]

    asyncio.run(scenario())


@pytest.mark.parametrize("leaders", [[-1] * 4, [99] * 4, [BROKER_ID]], ids=["no leader", "dead leader", "no partition"])
def test_a_partition_without_a_living_leader_is_not_available(leaders: list[int]) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.publish({GROUP_METADATA_TOPIC: leaders})
            assert rows(await ask(broker, 3))[0][0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert broker.topics.wanted == []

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_the_leader_of_the_transactional_ids_partition_coordinates(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            other = BROKER_ID + 1
            broker.publish({TRANSACTION_STATE_TOPIC: [BROKER_ID, other, BROKER_ID, BROKER_ID]})
            endpoint = BrokerEndpoint("other.example", 9093)
            brokers = {**broker.metadata.image.brokers, other: BrokerImage(other, {LISTENER: endpoint})}
            broker.metadata.publish(replace(broker.metadata.image, brokers=brokers))
            found = {partition_for(key, 4): rows(await ask(broker, version, 1, (key,)))[0] for key in "abcd"}
            assert found.pop(1)[:4] == (ErrorCode.NONE, other, "other.example", 9093)
            assert {row[:2] for row in found.values()} == {(ErrorCode.NONE, BROKER_ID)}
            assert broker.topics.wanted == []

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 4, 6])
def test_the_topic_of_transactions_is_made_when_it_is_missing(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.publish({"orders": [BROKER_ID]})
            assert rows(await ask(broker, version, 1))[0][0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert broker.topics.wanted == [TRANSACTION_STATE_TOPIC]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("version", "key_type", "error", "has_message"),
    [
        (3, 2, ErrorCode.INVALID_REQUEST, True),
        (5, 2, ErrorCode.INVALID_REQUEST, False),
        (6, 2, ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (3, 7, ErrorCode.INVALID_REQUEST, True),
        (6, 7, ErrorCode.INVALID_REQUEST, True),
        (6, -1, ErrorCode.INVALID_REQUEST, True),
    ],
)
def test_other_types_of_coordinator(version: int, key_type: int, error: ErrorCode, has_message: bool) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await ask(broker, version, key_type)
            assert rows(response) == [(error, -1, "", -1, error.message if has_message else "")]

    asyncio.run(scenario())
