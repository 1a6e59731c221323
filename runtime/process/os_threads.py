"""Runs work that would block the event loop in a few threads: reads of disks, writes of large responses.

Why no ThreadPoolExecutor: its threads take the interpreter's lock several times for each job, and while one waits for it,
every turn of the loop wakes it in vain, which costs the loop 10 to 50 us.

The threads have a low scheduling priority (`os_scheduling`), so that neither the loop nor other processes wait for
them.

Rules: threads start when they are needed, and run jobs in order of arrival. If the system allows no thread at all, the loop
runs the jobs itself, slowly. A thread runs only the jobs passed to it, and reports through `call_soon_threadsafe`.
Invariant: `done` of every job is called once, on the loop, unless the loop ends before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from runtime.process.os_scheduling import lower_priority

T = TypeVar("T")
# A job, and the callback for its result or exception.
Given = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class OsThreads:
    """At most `limit` threads, called `name`. Created on the loop that they serve; the owner closes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, name: str) -> None:
        self._loop = loop
        self._limit = limit
        self._name = name
        self._threads = 0
        self._under_way = 0  # submitted jobs that have not reported yet
        self._jobs: SimpleQueue[Given | None] = SimpleQueue()
        self._idle: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Return whether a job started now would wait for another."""
        return self._under_way >= self._limit

    def start(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run a job. `done` is called with its result, or its exception, or a CancelledError if it never began."""
        assert not self._is_closed, "job for closed threads"
        self._under_way += 1
        self._jobs.put((job, done))
        if self._threads < min(self._under_way, self._limit):
            self._hire()

    def _hire(self) -> None:
        try:
            threading.Thread(target=self._work, name=f"{self._name} {self._threads + 1}", daemon=True).start()
        except RuntimeError:  # no memory for its stack, or the user's limit is reached
            if not self._threads:
                self._do(*self._only_job())
        else:
            self._threads += 1

    def _only_job(self) -> Given:
        given = self._jobs.get_nowait()  # without threads, each job runs when it is submitted
        assert given is not None
        return given

    def _work(self) -> None:
        """The thread's function."""
        lower_priority()
        jobs = self._jobs
        while (given := jobs.get()) is not None:
            try:
                self._do(*given)
            except RuntimeError:
                return  # the loop is closed: the process ends and nothing waits
            del given  # or its objects would live until the next one

    def _do(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run a job and report to the loop. Raises RuntimeError when the loop is closed."""
        result, error = None, None
        try:
            result = job()
        except BaseException as raised:  # noqa: BLE001 - not swallowed: `done` gets it on the loop
            error = raised
        self._loop.call_soon_threadsafe(self._finished, done, result, error)

    def _finished(
        self, done: Callable[[Any, BaseException | None], None], result: Any, error: BaseException | None
    ) -> None:
        self._under_way -= 1
        done(result, error)
        if self._idle is not None and not self._under_way and not self._idle.done():
            self._idle.set_result(None)

    async def drain(self) -> None:
        """Return when every job has reported that was started."""
        while self._under_way:
            self._idle = self._loop.create_future()
            await self._idle

    def close(self) -> None:
        """Drop jobs that have not begun; those that have are not waited for."""
        self._is_closed = True
        with suppress(Empty):
            while given := self._jobs.get_nowait():
                self._finished(given[1], None, asyncio.CancelledError())
        for _ in range(self._threads):
            self._jobs.put(None)
