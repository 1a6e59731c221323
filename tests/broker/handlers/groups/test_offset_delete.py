"""OffsetDelete: rows for places, or one error for the group."""

from __future__ import annotations

import asyncio

from broker.handlers.groups.offset_commit import offset_commit
from broker.handlers.groups.offset_delete import offset_delete
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteResponse
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request, delete_offsets_request

ORDERS_0 = ("orders", 0)


def test_places_that_do_not_exist_cost_only_themselves() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {ORDERS_0: 5}), broker.context(9))
            request = delete_offsets_request("g", [ORDERS_0, ("orders", 9), ("unknown", 0), ORDERS_0])
            response = await offset_delete(request, broker.context(0))
            assert isinstance(response, OffsetDeleteResponse)
            found = [
                (topic.name, row.partition_index, row.error_code)
                for topic in response.topics
                for row in topic.partitions
            ]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert found == [("orders", 0, 0), ("orders", 9, unknown), ("unknown", 0, unknown)]
            assert broker.world.groups.offsets_count() == 0
            response.encode(0)

    asyncio.run(scenario())


def test_an_error_of_the_group_is_the_answers_even_without_places() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for places in ([ORDERS_0], [("unknown", 0)], []):
                response = await offset_delete(delete_offsets_request("none", places), broker.context(0))
                assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
            response = await offset_delete(delete_offsets_request("", [ORDERS_0]), broker.context(0))
            assert (response.error_code, response.topics) == (ErrorCode.INVALID_GROUP_ID, [])

    asyncio.run(scenario())
