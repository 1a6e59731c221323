"""OffsetFetch of version 0, which asks the store."""

from __future__ import annotations

from broker.handlers.groups.offset_commit import offset_commit
from broker.handlers.groups.offset_fetch import offset_fetch
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request

ORDERS_0 = ("orders", 0)
PLACES = {"orders": [0, 1, 9], "unknown": [0]}


def request_of(group_id: str, places: dict[str, list[int]]) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=rows) for name, rows in places.items()],
    )


def rows(response: OffsetFetchResponse) -> dict[TopicPartition, tuple[int, str | None, int]]:
    return {
        (topic.name, row.partition_index): (row.committed_offset, row.metadata, row.error_code)
        for topic in response.topics
        for row in topic.partitions
    }


async def test_version_0_asks_the_store() -> None:
    async with GroupBroker() as broker:
        await offset_commit(commit_request("g", {ORDERS_0: 5}, metadata="lost"), broker.context(0))
        await broker.store.create("/consumers/g/offsets/orders/1", b"no number")
        response = await offset_fetch(request_of("g", PLACES), broker.context(0))
        unknown = (-1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert rows(response) == {
            ORDERS_0: (5, "", ErrorCode.NONE),
            ("orders", 1): (-1, "", ErrorCode.UNKNOWN_SERVER_ERROR),
            ("orders", 9): unknown,
            ("unknown", 0): unknown,
        }
        assert rows(await offset_fetch(request_of("h", {"orders": [0]}), broker.context(0))) == {ORDERS_0: unknown}
        refused = rows(await offset_fetch(request_of("", {"orders": [0]}), broker.context(0)))
        assert refused == {ORDERS_0: (-1, "", ErrorCode.UNKNOWN_SERVER_ERROR)}
        response.encode(0)
