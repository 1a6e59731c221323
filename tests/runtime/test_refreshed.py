"""A value is read again after its pause, sooner after failures, and at once when somebody asks, but not too often."""

from __future__ import annotations

import asyncio
import logging

import pytest

from runtime.refreshed import Refreshed, RefreshTimes
from runtime.tasks import TaskScope
from tests.async_tests import simulated
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate

TIMES = RefreshTimes(retry_backoff_ms=100, retry_backoff_max_ms=300, hurry_pause_ms=1000)


class Source:
    """Fails while `error` is there; remembers when it was read."""

    def __init__(self, loop: SimLoop, tasks: TaskScope, times: RefreshTimes = TIMES) -> None:
        self.loop = loop
        self.reads: list[int] = []
        self.error: Exception | None = None
        self.refreshed: Refreshed[int] = Refreshed(
            "a thing", self.load, lambda _value: 5000, times, SimClock(loop), tasks
        )

    async def load(self) -> int:
        await asyncio.sleep(0)
        self.reads.append(round(self.loop.time() * 1000))
        if self.error is not None:
            raise self.error
        return len(self.reads)


@simulated(1)
async def test_it_is_read_again_after_each_pause(loop: SimLoop) -> None:
    async with TaskScope("test") as tasks:
        source = Source(loop, tasks)
        begin = round(loop.time() * 1000)
        assert source.refreshed.value is None
        await source.refreshed.start()
        assert source.refreshed.value == 1
        await asyncio.sleep(12)
        assert source.refreshed.value == 3
        assert [read - begin for read in source.reads] == [0, 5000, 10_000]


def test_failures_keep_the_value_and_are_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def program(loop: SimLoop) -> None:
        async with TaskScope("test") as tasks:
            source = Source(loop, tasks)
            await source.refreshed.start()
            begin, source.error = round(loop.time() * 1000), OSError(5, "broken")
            await asyncio.sleep(6.4)
            assert [read - begin for read in source.reads[1:]] == [5000, 5100, 5300, 5600, 5900, 6200]
            assert source.refreshed.value == 1 and source.refreshed.last_error == "broken"
            source.error = ValueError("no such form")
            await asyncio.sleep(0.35)
            source.error = None
            await asyncio.sleep(0.35)
            assert source.refreshed.value == len(source.reads) and source.refreshed.last_error == ""

    with caplog.at_level(logging.INFO):
        simulate(1, program)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@simulated(1)
async def test_a_first_read_that_fails_is_retried(loop: SimLoop) -> None:
    async with TaskScope("test") as tasks:
        source = Source(loop, tasks)
        source.error = OSError(5, "broken")
        await source.refreshed.start()
        assert source.refreshed.value is None
        source.error = None
        await asyncio.sleep(0.2)
        assert source.refreshed.value == 2


@simulated(1)
async def test_pauses_after_failures_are_never_nothing(loop: SimLoop) -> None:
    async with TaskScope("test") as tasks:
        source = Source(loop, tasks, RefreshTimes(retry_backoff_ms=0, retry_backoff_max_ms=-1))
        source.error = OSError(5, "broken")
        await source.refreshed.start()
        await asyncio.sleep(0.1)
        assert 9 <= len(source.reads) <= 11


@simulated(1)
async def test_hurrying_is_granted_once_in_a_while(loop: SimLoop) -> None:
    async with TaskScope("test") as tasks:
        source = Source(loop, tasks)
        await source.refreshed.start()
        source.refreshed.hurry()
        await asyncio.sleep(0.9)
        assert len(source.reads) == 1
        await asyncio.sleep(0.2)
        for _ in range(20):
            source.refreshed.hurry()
            await asyncio.sleep(0.01)
        assert len(source.reads) == 2
        await asyncio.sleep(4.9)
        assert len(source.reads) == 3, "the pause begins with the read that was asked for"
