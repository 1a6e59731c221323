"""OffsetFetch: one form for one group, another for several, and the tree store for version 0."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.offset_commit import offset_commit
from broker.handlers.groups.offset_fetch import offset_fetch
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request

ORDERS_0 = ("orders", 0)
PLACES = {"orders": [0, 1, 9], "unknown": [0]}


def request_of(version: int, group_id: str, places: dict[str, list[int]] | None) -> OffsetFetchRequest:
    if version >= 8:
        topics = None
        if places is not None:
            topics = [OffsetFetchRequestTopics(name=name, partition_indexes=rows) for name, rows in places.items()]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])
    if places is None:
        return OffsetFetchRequest(group_id=group_id, topics=None)
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=rows) for name, rows in places.items()],
    )


def rows(response: OffsetFetchResponse) -> dict[TopicPartition, tuple[int, str | None, int]]:
    topics = response.groups[0].topics if response.groups else response.topics
    return {
        (topic.name, row.partition_index): (row.committed_offset, row.metadata, row.error_code)
        for topic in topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 10))
def test_a_partition_without_an_offset_is_no_error(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {ORDERS_0: 5}, metadata="note"), broker.context(9))
            response = await offset_fetch(request_of(version, "g", PLACES), broker.context(version))
            nothing = (-1, "", ErrorCode.NONE)
            assert rows(response) == {
                ORDERS_0: (5, "note", ErrorCode.NONE),
                ("orders", 1): nothing,
                ("orders", 9): nothing,
                ("unknown", 0): nothing,
            }
            assert OffsetFetchResponse.decode(response.encode(version), version) is not None
            empty = await offset_fetch(request_of(version, "g", {}), broker.context(version))
            assert rows(empty) == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(2, 10))
def test_no_topics_means_all_there_are(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {ORDERS_0: 5, ("orders", 1): 6}), broker.context(9))
            response = await offset_fetch(request_of(version, "g", None), broker.context(version))
            assert rows(response) == {ORDERS_0: (5, "", 0), ("orders", 1): (6, "", 0)}

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(1, 10))
def test_an_error_of_the_group_stands_where_the_version_has_it(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for partition in range(4):
                broker.world.groups.runtime.on_resignation(partition)
            response = await offset_fetch(request_of(version, "g", PLACES), broker.context(version))
            assert rows(response) == {}
            decoded = OffsetFetchResponse.decode(response.encode(version), version)
            # Version 1 has nowhere to say it, as in Apache Kafka.
            expected = ErrorCode.NONE if version == 1 else ErrorCode.NOT_COORDINATOR
            assert (decoded.groups[0].error_code if version >= 8 else decoded.error_code) == expected

    asyncio.run(scenario())


def test_several_groups_are_answered_each_for_itself_and_a_place_once() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {ORDERS_0: 5}), broker.context(9))
            request = OffsetFetchRequest(
                groups=[
                    request_of(9, "g", None).groups[0],
                    request_of(9, "g", {"orders": [0, 0, 1]}).groups[0],
                    request_of(9, "none", None).groups[0],
                ]
            )
            response = await offset_fetch(request, broker.context(9))
            assert [group.group_id for group in response.groups] == ["g", "g", "none"]
            assert [len(topic.partitions) for group in response.groups for topic in group.topics] == [1, 2]
            assert (await offset_fetch(OffsetFetchRequest(groups=[]), broker.context(9))).groups == []

    asyncio.run(scenario())


def test_version_0_asks_the_store() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {ORDERS_0: 5}, metadata="lost"), broker.context(0))
            await broker.store.create("/consumers/g/offsets/orders/1", b"no number")
            response = await offset_fetch(request_of(0, "g", PLACES), broker.context(0))
            unknown = (-1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert rows(response) == {
                ORDERS_0: (5, "", ErrorCode.NONE),
                ("orders", 1): (-1, "", ErrorCode.UNKNOWN_SERVER_ERROR),
                ("orders", 9): unknown,
                ("unknown", 0): unknown,
            }
            assert rows(await offset_fetch(request_of(0, "h", {"orders": [0]}), broker.context(0))) == {
                ORDERS_0: unknown
            }
            refused = rows(await offset_fetch(request_of(0, "", {"orders": [0]}), broker.context(0)))
            assert refused == {ORDERS_0: (-1, "", ErrorCode.UNKNOWN_SERVER_ERROR)}
            response.encode(0)

    asyncio.run(scenario())
