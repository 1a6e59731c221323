"""The disk door, part two, on virtual time: the queues of `runtime.disk.disk_queue` without threads.

A write runs inline while its queue is idle, unless the disk happens to be slow (`slow_probability`); everything else
runs later, in order, after a seeded delay. What the reader threads do (cold reads, the fsync of a rolled segment) runs
after a delay of its own, in any order; `readers_delay_ms` adds to it, as a disk does that takes writes into the page
cache and is slow to put them down.
A crash drops what is queued: those jobs never run, and nobody hears of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from runtime.disk.disk_queue import DiskQueue, Readers
from runtime.disk.filesystem import Buffer, File
from tests.simulation.loop import SimLoop

T = TypeVar("T")


class SimDiskQueue:
    def __init__(self, disk: SimDisk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = deque()

    def write(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        def finish(_: Any, error: Exception | None) -> None:
            if error is not None and not isinstance(error, OSError):
                raise error
            done(error)

        if not self._jobs and not self._disk.is_slow() and self._disk.is_alive:
            finish(*_outcome(job))
        else:
            self._submit(job, finish)

    def write_now(self, file: File, content: Buffer, position: int) -> bool:
        if self._jobs or self._disk.is_slow() or not self._disk.is_alive:
            return False
        file.write_at((content,), position)
        return True

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self._disk.loop.create_future()

        def finish(result: T, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._submit(job, finish)
        return future

    async def drain(self) -> None:
        if self._jobs:
            await self.run(lambda: None)

    async def close(self) -> None:
        await self.drain()

    def _submit(self, job: Callable[[], Any], finish: Callable[[Any, Exception | None], None]) -> None:
        if not self._disk.is_alive:
            return
        self._jobs.append((job, finish))
        if len(self._jobs) == 1:
            self._schedule()

    def _schedule(self) -> None:
        self._disk.loop.call_later(self._disk.delay_s(), self._work)

    def _work(self) -> None:
        if not self._disk.is_alive:
            self._jobs.clear()
            return
        job, finish = self._jobs[0]
        outcome = _outcome(job)
        self._disk.loop.note(f"disk {self._directory}")
        self._jobs.popleft()
        if self._jobs:
            self._schedule()
        finish(*outcome)


class SimReaders:
    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        loop = self._disk.loop
        future: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            if not self._disk.is_alive or future.cancelled():
                return
            result, error = _outcome(job)
            if error is None:
                future.set_result(cast(T, result))
            else:
                future.set_exception(error)

        loop.call_later(self._disk.delay_s() + self._disk.readers_delay_s(), work)
        return future

    async def close(self) -> None:
        """Nothing to end: there are no threads."""


class SimDisk:
    """The `Disk` port of one process."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.is_alive = True
        self.slow_probability = 0.1
        self.min_delay_ms = 0.1
        self.max_delay_ms = 8.0
        self.readers_delay_ms = 0.0
        self._queues: dict[str, SimDiskQueue] = {}

    def queue(self, directory: str) -> DiskQueue:
        if directory not in self._queues:
            self._queues[directory] = SimDiskQueue(self, directory)
        return self._queues[directory]

    def readers(self) -> Readers:
        return SimReaders(self)

    def crash(self) -> None:
        """The process is gone."""
        self.is_alive = False

    def is_slow(self) -> bool:
        return self.loop.random.random() < self.slow_probability

    def delay_s(self) -> float:
        return self.loop.random.uniform(self.min_delay_ms, self.max_delay_ms) / 1000

    def readers_delay_s(self) -> float:
        return self.loop.random.uniform(0.0, self.readers_delay_ms) / 1000 if self.readers_delay_ms else 0.0


def _outcome(job: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return job(), None
    except Exception as error:  # noqa: BLE001 - raised again where the job's owner hears of it
        return None, error
