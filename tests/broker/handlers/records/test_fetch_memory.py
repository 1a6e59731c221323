"""What fetches reserve that are answered later: those that begin in one turn of the loop share the memory that is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.handlers.records import fetch as fetch_module
from broker.handlers.records.fetch import fetch
from broker.handlers.records.fetch_message_sets import fetch_message_sets
from broker.network.memory_budget import MemoryBudget
from broker.network.responses.response_memory import ResponseMemory
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from replication.fetch_read import PartitionRead, fill_cold
from tests.broker.handlers.records.test_fetch import NEWEST_BY_NAME
from tests.broker.handlers.replica_broker import ReplicaBroker, replica_broker
from tests.replication.replica_world import ME

LIMIT_BYTES = 1 << 20
FETCHES = 10
HELD_BYTES = 100_000


class PeakBudget(MemoryBudget):
    """Remembers the most that was reserved at a time, and the least."""

    def __init__(self) -> None:
        super().__init__(LIMIT_BYTES)
        self.peak_bytes = self.least_bytes = 0

    def reserve_anyway(self, size_bytes: int) -> None:
        super().reserve_anyway(size_bytes)
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        self.least_bytes = min(self.least_bytes, self.used_bytes)


async def fill_slowly(read: PartitionRead, max_bytes: int, *, at_least_one: bool) -> int:
    """From a disk that others have begun to wait for until it answers."""
    for _ in range(FETCHES):
        await asyncio.sleep(0)
    return await fill_cold(read, max_bytes, at_least_one=at_least_one)


@pytest.mark.parametrize("kind", ["cold", "long", "converted"])
async def test_fetches_that_wake_together_share_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(fetch_module, "fill", lambda *_, **__: -1)
    monkeypatch.setattr(fetch_module, "fill_cold", fill_slowly)
    if kind == "long":
        monkeypatch.setattr(fetch_module, "LONG_FETCH_ITEMS", 0)
    handler, version = (fetch_message_sets, 3) if kind == "converted" else (fetch, NEWEST_BY_NAME)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2 * LIMIT_BYTES)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[asked])])

    async def scenario(broker: ReplicaBroker) -> None:
        broker.one.lead(isr=(ME,), replicas=(ME,))
        budget = PeakBudget()
        broker.services.response_memory = ResponseMemory(budget, broker.timer)
        answers = [broker.start(handler, request, version) for _ in range(FETCHES)]
        for answer in answers:
            assert await answer.now() is None
        await broker.one.append("hello")
        for answer in answers:
            response = await answer.now()
            while response is None:
                await asyncio.sleep(0)
                broker.wait(5)
                response = await answer.now()
            (row,) = response.responses[0].partitions
            assert b"hello" in bytes(row.records), "whoever waits in line is answered too"
        assert 0 < budget.peak_bytes <= LIMIT_BYTES
        assert budget.used_bytes == 0, "what was reserved is given back"

    async with replica_broker(tmp_path) as broker:
        await asyncio.wait_for(scenario(broker), 20)


@pytest.mark.parametrize("kind", ["long", "converted"])
async def test_a_fetch_of_less_than_nothing_gives_no_memory_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(fetch_module, "LONG_FETCH_ITEMS", 0)
    handler, version = (fetch_message_sets, 3) if kind == "converted" else (fetch, NEWEST_BY_NAME)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic="t", partitions=[asked])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=-LIMIT_BYTES, topics=topics)
    async with replica_broker(tmp_path) as broker:
        broker.one.lead(isr=(ME,), replicas=(ME,))
        budget = PeakBudget()
        broker.services.response_memory = ResponseMemory(budget, broker.timer)
        answer = broker.start(handler, request, version)
        response = await answer.now()
        while response is None:
            response = await answer.now()
        assert response.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
        assert budget.least_bytes == 0


def test_what_a_fetch_has_read_already_counts_while_it_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(read: PartitionRead, _max_bytes: int, **_: bool) -> int:
        return HELD_BYTES if read.partition is None else -1

    monkeypatch.setattr(fetch_module, "fill", fill)
    asked = [FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=LIMIT_BYTES) for each in (0, 1)]
    topics = [FetchTopic(topic="t", partitions=asked)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=LIMIT_BYTES // 4, topics=topics)

    async def run() -> None:
        async with replica_broker(tmp_path) as broker:
            broker.one.lead(isr=(ME,), replicas=(ME,))
            await broker.one.append("hello")
            budget = PeakBudget()
            broker.services.response_memory = ResponseMemory(budget, broker.timer)
            answer = broker.start(fetch, request, NEWEST_BY_NAME)
            assert budget.used_bytes == LIMIT_BYTES // 4, "what it has, and what is left of its limit"
            while await answer.now() is None:
                pass
            assert budget.used_bytes == 0

    asyncio.run(asyncio.wait_for(run(), 20))
