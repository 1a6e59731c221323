"""ListGroups: all versions, filters in any case."""

from __future__ import annotations

import asyncio

import pytest

from broker.handlers.groups.list_groups import list_groups
from broker.handlers.groups.offset_commit import offset_commit
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.broker.handlers.group_world import GroupBroker
from tests.coordinator.requests import commit_request


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_with_what_the_version_knows(version: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            for name in ("g", "h"):
                await offset_commit(commit_request(name, {("orders", 0): 5}), broker.context(9))
            response = await list_groups(ListGroupsRequest(), broker.context(version))
            decoded = ListGroupsResponse.decode(response.encode(version), version)
            assert sorted((group.group_id, group.group_state, group.group_type) for group in decoded.groups) == [
                (name, "Empty" if version >= 4 else "", "classic" if version >= 5 else "") for name in ("g", "h")
            ]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("states", "types", "count"),
    [
        (["EMPTY"], [], 1),
        (["Stable"], [], 0),
        ([], ["Classic"], 1),
        ([], ["consumer"], 0),
        (["empty", "x"], ["classic", "x"], 1),
    ],
)
def test_filters_take_any_case_and_unknown_names(states: list[str], types: list[str], count: int) -> None:
    async def scenario() -> None:
        async with GroupBroker() as broker:
            await offset_commit(commit_request("g", {("orders", 0): 5}), broker.context(9))
            response = await list_groups(ListGroupsRequest(states_filter=states, types_filter=types), broker.context(5))
            assert len(response.groups) == count

    asyncio.run(scenario())
