"""AddPartitionsToTxn: the form of clients, and the one of brokers that verify."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.handlers.transactions.add_partitions_to_txn import add_partitions_to_txn
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.transactions.transactional_requests import ORDERS, TransactionalClient, ask

NONE = ErrorCode.NONE
OTHER = ("orders", 1)


def transaction(
    client: TransactionalClient, *partitions: TopicPartition, verify: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=client.name,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        verify_only=verify,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions],
    )


def rows(response: Any) -> list[tuple[str, TopicPartition, ErrorCode]]:
    assert response.error_code == NONE
    return [
        (result.transactional_id, (topic.name, row.partition_index), ErrorCode(row.partition_error_code))
        for result in response.results_by_transaction
        for topic in result.topic_results
        for row in topic.results_by_partition
    ]


@pytest.mark.parametrize("version", range(4))
def test_a_producer_adds_partitions(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            assert await client.add(ORDERS, OTHER, ORDERS, version=version) == {ORDERS: NONE, OTHER: NONE}
            topic = broker.transactions.coordinator.describe("t").topics[0]
            assert (topic.topic, topic.partitions) == ("orders", [0, 1])

    asyncio.run(scenario())


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_versions_before_2_know_a_fenced_producer_by_its_old_name(version: int, error: ErrorCode) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            client.epoch = 5
            assert await client.add(ORDERS, version=version) == {ORDERS: error}

    asyncio.run(scenario())


def test_one_partition_that_does_not_exist_keeps_the_others_out() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await client.add(ORDERS, ("orders", 9), ("none", 0)) == {
                ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED,
                ("orders", 9): unknown,
                ("none", 0): unknown,
            }
            assert broker.transactions.coordinator.describe("t").transaction_state == "Empty"

    asyncio.run(scenario())


def test_a_producer_cannot_add_an_internal_topic_itself() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker)
            await client.init()
            offsets = (GROUP_METADATA_TOPIC, 0)
            assert await client.add(ORDERS, offsets) == {
                ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED,
                offsets: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            }
            request = AddPartitionsToTxnRequest(transactions=[transaction(client, offsets)])
            assert rows(await ask(add_partitions_to_txn, broker, request, 4)) == [("t", offsets, NONE)]

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_verify_several_transactions_at_once(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            one, two = TransactionalClient(broker, "one"), TransactionalClient(broker, "two")
            await one.init()
            await two.init()
            await one.add(ORDERS)
            unknown = TransactionalClient(broker, "unknown", 5, 0)
            request = AddPartitionsToTxnRequest(
                transactions=[
                    transaction(one, ORDERS, OTHER, verify=True),
                    transaction(two, OTHER, verify=False),
                    transaction(unknown, ORDERS, verify=True),
                ]
            )
            assert rows(await ask(add_partitions_to_txn, broker, request, version)) == [
                ("one", ORDERS, NONE),
                ("one", OTHER, ErrorCode.TRANSACTION_ABORTABLE),
                ("two", OTHER, NONE),
                ("unknown", ORDERS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            ]

    asyncio.run(scenario())


def test_an_empty_transactional_id_is_no_request() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            client = TransactionalClient(broker, "", 5, 0)
            assert await client.add(ORDERS) == {ORDERS: ErrorCode.INVALID_REQUEST}

    asyncio.run(scenario())
