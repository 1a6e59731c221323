"""OffsetCommit of version 0, which goes to the store: groups that are no path, and a store that does not answer."""

from __future__ import annotations

import pytest

from broker.handlers.groups.offset_commit import offset_commit
from metadata.store.port import ConnectionLossError
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request
from tests.simulation.store import Fault

ORDERS_0 = ("orders", 0)


def errors(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    return {(topic.name, row.partition_index): row.error_code for topic in response.topics for row in topic.partitions}


@pytest.mark.parametrize("group_id", ["", "a//b", ".", "a/..", "nul\0"])
async def test_version_0_refuses_a_group_that_is_no_path(group_id: str) -> None:
    async with GroupBroker() as broker:
        response = await offset_commit(commit_request(group_id, {ORDERS_0: 5}), broker.context(0))
        assert errors(response) == {ORDERS_0: ErrorCode.UNKNOWN_SERVER_ERROR}


async def test_version_0_says_so_when_the_store_is_silent() -> None:
    async with GroupBroker() as broker:
        broker.ensemble.fault = lambda _session, _operations: Fault.REQUEST_LOST
        response = await offset_commit(commit_request("g", {ORDERS_0: 5}), broker.context(0))
        assert errors(response) == {ORDERS_0: ErrorCode.UNKNOWN_SERVER_ERROR}
        with pytest.raises(ConnectionLossError):
            await broker.store.set("/", b"")
