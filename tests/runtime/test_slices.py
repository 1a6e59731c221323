"""Long work: how long the loop is kept from others, and who has the line. Time is what the clock is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from runtime.slices import SHORT_ROWS, SLICE_MS, SerialQueue, Slices
from tests.doubles.clock import ManualClock


class Watcher:
    """Somebody else on the loop: sees how much time passes between two of its turns."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._seen_ms = clock.now_ms
        self.longest_ms = 0
        self.turns = 0

    async def watch(self) -> None:
        while True:
            self.longest_ms = max(self.longest_ms, self._clock.now_ms - self._seen_ms)
            self._seen_ms = self._clock.now_ms
            self.turns += 1
            await asyncio.sleep(0)


async def watched(clock: ManualClock, work: Coroutine[object, object, object]) -> Watcher:
    watcher = Watcher(clock)
    watching = asyncio.ensure_future(watcher.watch())
    await asyncio.sleep(0)
    await work
    watching.cancel()
    return watcher


async def test_others_run_whenever_a_slice_is_over() -> None:
    clock = ManualClock()
    done: list[int] = []

    async def work() -> None:
        async for item in Slices(clock).over(range(100)):
            clock.now_ms += 2
            done.append(item)

    watcher = await watched(clock, work())
    assert done == list(range(100))
    assert watcher.longest_ms <= SLICE_MS + 1
    assert watcher.turns >= 200 // (SLICE_MS + 1)


async def test_work_that_takes_no_time_is_not_interrupted() -> None:
    clock = ManualClock()

    async def work() -> None:
        slices = Slices(clock)
        async for _ in slices.over(range(10_000)):
            await slices.yield_if_due()

    assert (await watched(clock, work())).turns == 1


async def test_nested_loops_share_their_slice() -> None:
    clock = ManualClock()

    async def work() -> None:
        slices = Slices(clock)
        async for outer in slices.over(range(30)):
            async for _ in slices.over(range(outer % 2)):
                clock.now_ms += 1

    assert (await watched(clock, work())).longest_ms == SLICE_MS


def line_of_this_loop() -> SerialQueue:
    return SerialQueue(ManualClock(), asyncio.get_running_loop().call_soon)


async def piece(line: SerialQueue, name: str, told: list[str], rows: int | None = None, breaths: int = 3) -> None:
    async with line.begin(rows):
        told.append(f"{name} begins")
        for _ in range(breaths):
            await asyncio.sleep(0)
        told.append(f"{name} ends")


async def test_one_piece_at_a_time_in_order() -> None:
    line, told = line_of_this_loop(), list[str]()
    await asyncio.gather(*(piece(line, name, told) for name in "abc"))
    assert told == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]
    assert not line.is_busy


async def test_short_work_does_not_stand_in_line() -> None:
    line, told = line_of_this_loop(), list[str]()
    await asyncio.gather(piece(line, "long", told, SHORT_ROWS + 1), piece(line, "short", told, SHORT_ROWS, 0))
    assert told == ["long begins", "short begins", "short ends", "long ends"]


async def test_a_piece_that_fails_passes_the_line_on() -> None:
    line, told = line_of_this_loop(), list[str]()

    async def fail() -> None:
        async with line.begin():
            await asyncio.sleep(0)
            raise FileNotFoundError

    failing = asyncio.ensure_future(fail())
    await asyncio.sleep(0)
    await piece(line, "a", told)
    assert told == ["a begins", "a ends"]
    with pytest.raises(FileNotFoundError):
        await failing


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_piece_that_is_cancelled_passes_the_line_on(turns: int) -> None:
    """Whether it waits, is being called, or is at work."""
    line, told = line_of_this_loop(), list[str]()
    first = asyncio.ensure_future(piece(line, "a", told, breaths=2))
    second = asyncio.ensure_future(piece(line, "b", told, breaths=2))
    third = asyncio.ensure_future(piece(line, "c", told))
    for _ in range(turns):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, third)
    assert told[-2:] == ["c begins", "c ends"]
    assert not line.is_busy
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_what_a_turn_begins_holds_the_line_before_those_behind() -> None:
    line, told = line_of_this_loop(), list[str]()

    def begin() -> None:
        coroutine = piece(line, "b", told)
        coroutine.send(None)  # up to its first wait, as a handler is started
        told.append("b holds the line")
        coroutine.close()

    first = asyncio.ensure_future(piece(line, "a", told))
    await asyncio.sleep(0)
    line.when_free(lambda: told.append("b prepares"), begin)
    third = asyncio.ensure_future(piece(line, "c", told))
    await asyncio.gather(first, third)
    assert told == [*("a begins", "a ends", "b prepares", "b begins", "b holds the line", "c begins", "c ends")]


async def test_preparing_and_beginning_are_slices_of_their_own() -> None:
    line, told = line_of_this_loop(), list[str]()
    for name in "ab":
        line.when_free(lambda name=name: told.append(f"{name} prepares"), lambda name=name: told.append(name))
    seen: list[list[str]] = []
    while line.is_busy:
        seen.append(list(told))
        await asyncio.sleep(0)
    assert seen[0] == []
    assert [len(each) for each in seen] == sorted({len(each) for each in seen})
    assert told == ["a prepares", "a", "b prepares", "b"]


@pytest.mark.parametrize(("turns", "expected"), [(0, ["a"]), (1, ["b prepares", "a"]), (2, ["b prepares", "b", "a"])])
async def test_who_leaves_is_not_called(turns: int, expected: list[str]) -> None:
    line, told = line_of_this_loop(), list[str]()
    gone = line.when_free(lambda: told.append("b prepares"), lambda: told.append("b"))
    line.when_free(lambda: None, lambda: told.append("a"))
    for _ in range(turns):
        await asyncio.sleep(0)
    line.cancel(gone)
    for _ in range(6):
        await asyncio.sleep(0)
    assert told == expected
    assert not line.is_busy
