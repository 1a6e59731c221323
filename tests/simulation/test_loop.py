from __future__ import annotations

import asyncio
import threading
from typing import NoReturn

import pytest

from runtime.timer import Timer
from tests.async_tests import simulated
from tests.simulation.clock import SimClock
from tests.simulation.loop import Deadlock, SimLoop, SimulationFailed, ThreadsForbidden, simulate


def test_waiting_takes_virtual_time_only() -> None:
    async def program(loop: SimLoop) -> tuple[int, int]:
        clock = SimClock(loop, skew_ms=-700)
        wall_ms = clock.wall_ms()
        await asyncio.sleep(3600)
        async with asyncio.timeout(10):
            await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
        return clock.monotonic_ms(), clock.wall_ms() - wall_ms

    assert simulate(1, program) == (3_602_000, 3_602_000)


def test_the_timing_wheel_runs_on_it() -> None:
    async def program(loop: SimLoop) -> list[int]:
        clock = SimClock(loop)
        timer = Timer(clock, loop.call_later)
        ran: list[int] = []
        for delay_ms in (500, 3, 70_000):
            timer.schedule(delay_ms, lambda: ran.append(clock.monotonic_ms()))
        await asyncio.sleep(100)
        return ran

    assert simulate(1, program) == [3, 500, 70_000]


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def program(_: SimLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        simulate(1, program)


@simulated(1)
async def test_threads_are_refused(loop: SimLoop) -> None:
    with pytest.raises(ThreadsForbidden):
        await asyncio.to_thread(threading.get_ident)
    with pytest.raises(ThreadsForbidden):
        loop.call_soon_threadsafe(lambda: None)


def test_an_exception_that_nobody_handles_fails_the_run() -> None:
    def fail() -> NoReturn:
        raise ValueError("unseen")

    async def program(loop: SimLoop) -> None:
        loop.call_soon(fail)
        await asyncio.sleep(1)

    with pytest.raises(SimulationFailed) as failed:
        simulate(1, program)
    assert str(failed.value.__cause__) == "unseen"


def test_the_trace_depends_on_the_seed_alone() -> None:
    def digest(seed: int) -> str:
        async def program(loop: SimLoop) -> str:
            async def node(name: int) -> None:
                for _ in range(20):
                    await asyncio.sleep(loop.random.random())
                    loop.note(f"node {name}")

            await asyncio.gather(*(node(name) for name in range(5)))
            return loop.trace.digest()

        return simulate(seed, program)

    assert digest(7) == digest(7)
    assert digest(7) != digest(8)
