"""Fetches of thousands of partitions: others run between them, and the answer is the one that was made in one go.

Time passes only when the clock is read, which is once a partition here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from broker.handlers.records import fetch as fetch_module
from broker.handlers.records.fetch import fetch
from broker.handlers.records.fetch_message_sets import fetch_message_sets
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from runtime import slices
from runtime.slices import SLICE_MS, SerialQueue
from tests.async_tests import played_by
from tests.broker.handlers.records.test_fetch import NEWEST_BY_NAME
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.broker.handlers.test_long_answers import Others
from tests.doubles.clock import ManualClock
from tests.replication.replica_world import ME
from tests.storage.logs import values_of

ROWS = 300
FOLLOWER = 2
TURNS = 10 * ROWS


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "LONG_FETCH_ITEMS", ROWS // 2)
    monkeypatch.setattr(fetch_module, "STEP_ITEMS", 1)
    monkeypatch.setattr(slices, "SHORT_ROWS", ROWS // 4)


def play(folder: Path, scenario: Callable[[ReplicaBroker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with replica_broker(folder) as broker:
            broker.one.lead(isr=(ME,), replicas=(ME, FOLLOWER))
            clock = ManualClock(step_ms=1)
            broker.services.clock = clock
            broker.services.serial_queue = SerialQueue(clock, asyncio.get_running_loop().call_soon)
            await scenario(broker)

    asyncio.run(run())


def many(*, wait_ms: int = 0, others: int = ROWS, offset: int = 0, **more: Any) -> FetchRequest:
    """t-0, the only one that is there, in front of others."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index in range(others + 1)
    ]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic="t", partitions=partitions)], **more)


async def answered(answer: Answer) -> Any:
    for _ in range(TURNS):
        response = await answer.now()
        if response is not None:
            return response
    raise AssertionError("no answer")


async def looked(broker: ReplicaBroker) -> None:
    """Return when nothing is under way."""
    for _ in range(TURNS):
        if not len(broker.services.tasks):
            return
        await asyncio.sleep(0)
    raise AssertionError("it is never through")


def values(response: Any) -> list[str]:
    """Of t-0."""
    rows = [row for topic in response.responses for row in topic.partitions if row.partition_index == 0]
    return [value for row in rows for _, value in values_of(bytes(row.records or b""))]


@pytest.mark.parametrize("version", [2, 3, 4, 11, NEWEST_BY_NAME])
@played_by(play, "tmp_path")
async def test_others_run_in_between_and_the_answer_is_the_same(
    broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    await broker.one.append("a", "b")
    handler = fetch if version >= 4 else fetch_message_sets
    with monkeypatch.context() as patch:
        patch.setattr(fetch_module, "LONG_FETCH_ITEMS", 1 << 30)
        whole = await answered(broker.start(handler, many(), version))
    others = Others(cast(ManualClock, broker.services.clock))
    running = asyncio.ensure_future(others.run())
    await asyncio.sleep(0)
    answer = broker.start(handler, many(), version)
    await looked(broker)
    assert others.turns > 2 * ROWS // (2 * SLICE_MS), "when looking and when answering"
    assert others.longest_ms <= 3 * SLICE_MS
    running.cancel()
    assert (await answered(answer)).encode(version) == whole.encode(version)


@played_by(play, "tmp_path")
async def test_what_comes_while_it_looks_ends_the_wait(broker: ReplicaBroker) -> None:
    for offset, value in enumerate(["a", "b"]):
        answer = broker.start(fetch, many(wait_ms=500, offset=offset), NEWEST_BY_NAME)
        await asyncio.sleep(0)
        assert len(broker.services.tasks), "t-0 has been looked at, most others have not"
        await broker.one.append(value)
        assert values(await answered(answer)) == [value]


@played_by(play, "tmp_path")
async def test_it_waits_as_others_do(broker: ReplicaBroker) -> None:
    waiting = broker.start(fetch, many(wait_ms=500), NEWEST_BY_NAME)
    await looked(broker)
    assert await waiting.now() is None
    await broker.one.append("a")
    assert values(await answered(waiting)) == ["a"]
    late = broker.start(fetch, many(wait_ms=500, offset=1), NEWEST_BY_NAME)
    await looked(broker)
    assert await late.now() is None
    broker.wait(500)
    assert values(await answered(late)) == []


@played_by(play, "tmp_path")
async def test_a_session_goes_on_where_it_was_told_of_all(broker: ReplicaBroker) -> None:
    await broker.one.append("a")
    first = await answered(broker.start(fetch, many(session_epoch=0), NEWEST_BY_NAME))
    assert values(first) == ["a"] and len(first.responses[0].partitions) == ROWS + 1
    request = FetchRequest(session_id=first.session_id, session_epoch=1, max_wait_ms=0, min_bytes=1, topics=[])
    request.topics = many(others=0, offset=1).topics
    second = await answered(broker.start(fetch, request, NEWEST_BY_NAME))
    assert second.error_code == ErrorCode.NONE
    await broker.one.append("b")
    request.session_epoch, request.topics = 2, []
    assert values(await answered(broker.start(fetch, request, NEWEST_BY_NAME))) == ["b"]


@played_by(play, "tmp_path")
async def test_a_session_that_goes_on_meanwhile_has_left_it_behind(broker: ReplicaBroker) -> None:
    first = await answered(broker.start(fetch, many(session_epoch=0), NEWEST_BY_NAME))
    again = many(wait_ms=500, session_id=first.session_id, session_epoch=1)
    left_behind = broker.start(fetch, again, NEWEST_BY_NAME)
    await asyncio.sleep(0)
    forgetful = FetchRequest(session_id=first.session_id, session_epoch=2, min_bytes=1, topics=[], max_wait_ms=500)
    following = broker.start(fetch, forgetful, NEWEST_BY_NAME)
    assert (await answered(left_behind)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    await looked(broker)
    await broker.one.append("a")
    assert values(await answered(following)) == ["a"]


@played_by(play, "tmp_path")
async def test_who_goes_away_leaves_nothing_behind(broker: ReplicaBroker) -> None:
    answer = broker.start(fetch, many(wait_ms=500), NEWEST_BY_NAME)
    await asyncio.sleep(0)
    assert len(broker.services.tasks)
    answer.abandon()
    await looked(broker)
    assert broker.one.partition.waiters.fetches_count == 0
    assert not broker.services.serial_queue.is_busy


@pytest.mark.parametrize("turns", [1, ROWS // 2, None])
@played_by(play, "tmp_path")
async def test_a_broker_that_stops_is_not_kept_waiting(broker: ReplicaBroker, turns: int | None) -> None:
    answer = broker.start(fetch, many(wait_ms=500), NEWEST_BY_NAME)
    if turns is None:
        await looked(broker)  # it waits
    for _ in range(turns or 0):
        await asyncio.sleep(0)
    answer.expedite()
    assert values(await answered(answer)) == []


@played_by(play, "tmp_path")
async def test_a_follower_stands_in_no_line_behind_consumers(broker: ReplicaBroker) -> None:
    await broker.one.append("a")
    async with broker.services.serial_queue.begin():
        consumer = broker.start(fetch, many(), NEWEST_BY_NAME)
        follower = broker.start(fetch, many(replica_id=FOLLOWER), NEWEST_BY_NAME)
        assert values(await answered(follower)) == ["a"]
        assert await consumer.now() is None
    assert values(await answered(consumer)) == ["a"]


@played_by(play, "tmp_path")
async def test_an_ordinary_fetch_is_answered_at_once(broker: ReplicaBroker) -> None:
    assert not isinstance(fetch(many(others=ROWS // 2 - 1), broker.context(NEWEST_BY_NAME)), Deferred)
    assert isinstance(fetch(many(others=ROWS // 2), broker.context(NEWEST_BY_NAME)), Deferred)
    await looked(broker)
