"""OffsetCommit: unknown places, the old place of version 0, and metadata that is too long."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.offset_commit import offset_commit
from coordinator.group.offsets import CommittedOffset
from metadata.store.port import ConnectionLossError
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request, fetch_group
from tests.simulation.store import Fault

ORDERS_0 = ("orders", 0)


def errors(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    return {(topic.name, row.partition_index): row.error_code for topic in response.topics for row in topic.partitions}


@pytest.mark.parametrize("version", range(10))
def test_places_that_do_not_exist_cost_only_themselves(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            request = commit_request("g", {ORDERS_0: 5, ("orders", 9): 5, ("unknown", 0): 5})
            response = await offset_commit(request, broker.context(version))
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert errors(response) == {ORDERS_0: ErrorCode.NONE, ("orders", 9): unknown, ("unknown", 0): unknown}
            response.encode(version)
            if version == 0:
                data, _ = await broker.store.get("/consumers/g/offsets/orders/0")
                assert data == b"5"
            assert broker.world.groups.offsets_count() == (0 if version == 0 else 1)

    asyncio.run(scenario())


def test_without_a_place_that_exists_the_coordinator_is_not_asked() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.world.groups.close()
            response = await offset_commit(commit_request("g", {("unknown", 0): 5}), broker.context(9))
            assert errors(response) == {("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            response = await offset_commit(commit_request("g", {ORDERS_0: 5}), broker.context(9))
            assert errors(response) == {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    asyncio.run(scenario())


def test_a_place_named_twice_is_answered_once_and_the_last_offset_counts() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            request = commit_request("g", {ORDERS_0: 5})
            request.topics += commit_request("g", {ORDERS_0: 6}).topics
            response = await offset_commit(request, broker.context(9))
            assert [len(topic.partitions) for topic in response.topics] == [1]
            found = broker.world.groups.fetch_offsets(fetch_group("g"), require_stable=False)
            stored = found.topic_partitions["orders"][0]
            assert isinstance(stored, CommittedOffset) and stored.offset == 6

    asyncio.run(scenario())


def test_version_0_overwrites_and_checks_only_the_length_of_the_metadata() -> None:
    async def scenario() -> None:
        async with GroupBroker(limit=4) as broker:
            for offset in (5, 6):
                response = await offset_commit(commit_request("g", {ORDERS_0: offset}), broker.context(0))
                assert errors(response) == {ORDERS_0: ErrorCode.NONE}
            response = await offset_commit(commit_request("g", {ORDERS_0: 7}, metadata="12345"), broker.context(0))
            assert errors(response) == {ORDERS_0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
            assert (await broker.store.get("/consumers/g/offsets/orders/0"))[0] == b"6"

    asyncio.run(scenario())


@pytest.mark.parametrize("group_id", ["", "a//b", ".", "a/..", "nul\0"])
def test_version_0_refuses_a_group_that_is_no_path(group_id: str) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            response = await offset_commit(commit_request(group_id, {ORDERS_0: 5}), broker.context(0))
            assert errors(response) == {ORDERS_0: ErrorCode.UNKNOWN_SERVER_ERROR}

    asyncio.run(scenario())


def test_version_0_says_so_when_the_store_is_silent() -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            broker.ensemble.fault = lambda _session, _operations: Fault.REQUEST_LOST
            response = await offset_commit(commit_request("g", {ORDERS_0: 5}), broker.context(0))
            assert errors(response) == {ORDERS_0: ErrorCode.UNKNOWN_SERVER_ERROR}
            with pytest.raises(ConnectionLossError):
                await broker.store.set("/", b"")

    asyncio.run(scenario())
