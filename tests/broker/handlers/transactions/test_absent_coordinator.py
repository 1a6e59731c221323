"""Requests about transactions when a coordinator is not active, or the topic that holds the groups does not exist yet."""

from __future__ import annotations

from typing import Any

from broker.handlers.transactions.add_offsets_to_txn import add_offsets_to_txn
from broker.handlers.transactions.describe_transactions import describe_transactions
from broker.handlers.transactions.init_producer_id import init_producer_id
from broker.handlers.transactions.list_transactions import list_transactions
from broker.network.routes import Handler
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.schema import Request
from tests.broker.handlers.group_world import GroupBroker


async def ask(handler: Handler[Any], broker: GroupBroker, request: Request, version: int) -> Any:
    """Return the response as the client decodes it."""
    decoded = type(request).decode(request.encode(version), version)
    response = await handler(decoded, broker.context(version))
    return type(response).decode(response.encode(version), version)


async def test_the_topic_of_the_groups_is_made_when_it_is_not_known() -> None:
    async with GroupBroker() as broker:
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        made = await ask(init_producer_id, broker, request, 5)
        broker.world.partitions_count = None
        broker.world.groups.runtime._partitions_count = None
        offsets = AddOffsetsToTxnRequest(
            transactional_id="t", producer_id=made.producer_id, producer_epoch=made.producer_epoch, group_id="g"
        )
        response = await ask(add_offsets_to_txn, broker, offsets, 4)
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.topics.wanted == [GROUP_METADATA_TOPIC]


async def test_a_coordinator_that_is_not_active_has_nothing_to_show() -> None:
    async with GroupBroker() as broker:
        broker.transactions.coordinator.close()
        unknown = ListTransactionsRequest(state_filters=["Nonsense"], producer_id_filters=[])
        response = await ask(list_transactions, broker, unknown, 1)
        assert (response.error_code, response.unknown_state_filters) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        request = DescribeTransactionsRequest(transactional_ids=["a", ""])
        described = await ask(describe_transactions, broker, request, 0)
        assert {row.error_code for row in described.transaction_states} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
