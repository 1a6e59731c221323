"""The old place of offsets is written also when two clients are first at the same time."""

from __future__ import annotations

import asyncio

from broker.handlers.groups.legacy_offsets import commit_legacy_offset, fetch_legacy_offset
from tests.broker.handlers.group_world import GroupBroker


async def test_two_first_commits_both_succeed() -> None:
    async with GroupBroker() as broker:
        await asyncio.gather(*(commit_legacy_offset(broker.store, "g", "orders", 0, offset) for offset in (1, 2)))
        assert await fetch_legacy_offset(broker.store, "g", "orders", 0) in (1, 2)
        assert await fetch_legacy_offset(broker.store, "g", "orders", 1) is None
