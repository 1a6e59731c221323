from __future__ import annotations

import asyncio

import pytest

from tests.async_tests import simulated
from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop, SimulationFailed, simulate


def test_jobs_run_in_order_whatever_the_disk_does() -> None:
    async def program(loop: SimLoop) -> None:
        disk = SimDisk(loop)
        disk.slow_probability = 0.5
        queue = disk.queue("d")
        order: list[int] = []
        acknowledged: list[int] = []
        jobs = []
        for i in range(50):
            if i % 7 == 0:
                jobs.append(queue.run(lambda i=i: order.append(i)))  # type: ignore[misc]
            else:
                queue.write(
                    lambda i=i: order.append(i),  # type: ignore[misc]
                    lambda _, i=i: acknowledged.append(i),  # type: ignore[misc]
                )
        await queue.drain()
        assert order == list(range(50))
        assert acknowledged == [i for i in range(50) if i % 7]
        assert all(job.done() for job in jobs if isinstance(job, asyncio.Future))

    for seed in range(5):
        simulate(seed, program)


@simulated(1)
async def test_an_idle_and_fast_disk_writes_inline(loop: SimLoop) -> None:
    disk = SimDisk(loop)
    disk.slow_probability = 0.0
    seen: list[object] = []
    disk.queue("d").write(lambda: seen.append("written"), seen.append)
    assert seen == ["written", None]


@simulated(1)
async def test_a_crash_drops_what_is_queued(loop: SimLoop) -> None:
    disk = SimDisk(loop)
    queue = disk.queue("d")
    seen: list[object] = []
    job = asyncio.ensure_future(queue.run(lambda: seen.append("synced")))
    queue.write(lambda: seen.append("written"), seen.append)
    read = asyncio.ensure_future(disk.readers().run(lambda: seen.append("read")))
    disk.crash()
    queue.write(lambda: seen.append("ghost"), seen.append)
    await asyncio.sleep(10)
    assert seen == []
    assert not job.done() and not read.done()
    job.cancel()
    read.cancel()


def test_errors_reach_their_owner_and_bugs_fail_the_run() -> None:
    def fail() -> None:
        raise OSError(5, "bad disk")

    def bug() -> None:
        raise ValueError("bug")

    async def program(loop: SimLoop) -> None:
        disk = SimDisk(loop)
        queue = disk.queue("d")
        with pytest.raises(OSError, match="bad disk"):
            await queue.run(fail)
        with pytest.raises(OSError, match="bad disk"):
            await disk.readers().run(fail)
        disk.slow_probability = 1.0
        queue.write(bug, lambda _: None)
        await asyncio.sleep(1)

    with pytest.raises(SimulationFailed):
        simulate(1, program)
