"""What a request waits for: every wait has one outcome, the operation completes once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from replication.partition import Partition
from replication.waiting.delayed_operation import DelayedOperation, Wait
from runtime.timer import Timer
from tests.async_tests import played_by
from tests.coordinator.world import ManualCallLater
from tests.doubles.clock import ManualClock
from tests.replication.replica_world import Replica, replica


class Request:
    """An operation whose outcomes are kept by subject."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.call_later = ManualCallLater(self.clock)
        self.timer = Timer(self.clock, self.call_later)
        self.operation: DelayedOperation[str] = DelayedOperation(self._on_outcome)
        self.outcomes: list[tuple[str, ErrorCode]] = []
        self.completions: list[list[tuple[str, ErrorCode]]] = []

    def _on_outcome(self, wait: Wait[str], error: ErrorCode) -> None:
        self.outcomes.append((wait.subject, error))

    def begin(self, timeout_ms: int | None = None) -> None:
        def on_complete() -> None:
            self.completions.append(list(self.outcomes))

        if timeout_ms is None:
            self.operation.begin(on_complete)
        else:
            self.operation.begin(on_complete, self.timer, timeout_ms)


def play(folder: Path, scenario: Callable[[Replica], Awaitable[None]]) -> None:
    async def program() -> None:
        async with replica(folder) as one:
            one.lead(isr=(1, 2))
            await scenario(one)

    asyncio.run(program())


def waiting_count(partition: Partition) -> int:
    return partition.waiters.produces_count + partition.waiters.deletions_count


@played_by(play, "tmp_path")
async def test_it_completes_behind_the_last_outcome(one: Replica) -> None:
    request = Request()
    first = await one.append("a")
    last = await one.append("b")
    request.operation.wait_until_committed(one.partition, last, "last")
    request.operation.wait_until_committed(one.partition, first, "first")
    request.begin(1_000)
    one.fetched(first)
    assert request.outcomes == [("first", ErrorCode.NONE)] and request.completions == []
    one.fetched(last)
    assert request.completions == [[("first", ErrorCode.NONE), ("last", ErrorCode.NONE)]]
    request.call_later.advance(10_000)
    assert len(request.completions) == 1 and len(request.outcomes) == 2


@played_by(play, "tmp_path")
async def test_it_does_not_complete_before_all_places_are_taken(one: Replica) -> None:
    request = Request()
    first = await one.append("a")
    request.operation.wait_until_committed(one.partition, first, "first")
    one.fetched(first)
    assert request.outcomes == [("first", ErrorCode.NONE)]
    last = await one.append("b")
    request.operation.wait_until_committed(one.partition, last, "last")
    request.begin()
    assert request.completions == []
    one.fetched(last)
    assert len(request.completions) == 1


@pytest.mark.parametrize("timeout_ms", [-5, 0, 1_000])
@played_by(play, "tmp_path")
async def test_at_the_end_of_the_time_what_is_left_has_timed_out(one: Replica, timeout_ms: int) -> None:
    request = Request()
    first = await one.append("a")
    last = await one.append("b")
    request.operation.wait_until_committed(one.partition, first, "first")
    request.operation.wait_until_committed(one.partition, last, "last")
    request.operation.wait_until_written(one.partition, last + 1, "written")
    request.operation.wait_until_deleted(one.partition, last, "deleted")
    request.begin(timeout_ms)
    assert request.completions == []
    one.fetched(first)
    request.call_later.advance(max(timeout_ms, 1))
    timed_out = [(each, ErrorCode.REQUEST_TIMED_OUT) for each in ("last", "written", "deleted")]
    assert request.completions == [[("first", ErrorCode.NONE), *timed_out]]
    assert waiting_count(one.partition) == 0
    one.fetched(last)
    assert len(request.outcomes) == 4 and len(request.completions) == 1


@played_by(play, "tmp_path")
async def test_every_kind_of_wait_hears_that_the_leadership_ends(one: Replica) -> None:
    request = Request()
    end = await one.append("a")
    request.operation.wait_until_committed(one.partition, end, "committed")
    request.operation.wait_until_written(one.partition, end + 1, "written")
    request.operation.wait_until_deleted(one.partition, end, "deleted")
    request.begin(1_000)
    one.follow(epoch=1)
    assert dict(request.outcomes) == dict.fromkeys(
        ("committed", "written", "deleted"), ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert len(request.completions) == 1


@played_by(play, "tmp_path")
async def test_when_it_is_cancelled_nothing_is_called(one: Replica) -> None:
    request = Request()
    end = await one.append("a")
    request.operation.wait_until_committed(one.partition, end, "committed")
    request.operation.wait_until_deleted(one.partition, end, "deleted")
    request.begin(1_000)
    assert [wait.subject for wait in request.operation.cancel()] == ["committed", "deleted"]
    assert waiting_count(one.partition) == 0
    one.fetched(end)
    request.call_later.advance(10_000)
    assert request.outcomes == [] and request.completions == []
    assert request.operation.cancel() == []


@pytest.mark.parametrize("is_cancelled", [True, False])
@played_by(play, "tmp_path")
async def test_who_awaits_it(one: Replica, is_cancelled: bool) -> None:
    request = Request()
    await request.operation.completed(request.timer, 1_000)  # nothing to wait for
    end = await one.append("a")
    request.operation.wait_until_committed(one.partition, end, "committed")
    waiting = asyncio.ensure_future(request.operation.completed(request.timer, 1_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    if is_cancelled:
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() and waiting_count(one.partition) == 0
    one.fetched(end)
    if not is_cancelled:
        await waiting
    request.call_later.advance(10_000)
    assert request.outcomes == ([] if is_cancelled else [("committed", ErrorCode.NONE)])


@played_by(play, "tmp_path")
async def test_at_the_end_of_its_block_nobody_waits(one: Replica) -> None:
    request = Request()
    end = await one.append("a")
    with request.operation as operation:
        operation.wait_until_committed(one.partition, end, "committed")
        assert waiting_count(one.partition) == 1
    assert waiting_count(one.partition) == 0
