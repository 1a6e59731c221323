"""A few threads for work that would block the event loop: reads of disks, writes of large responses.

A ThreadPoolExecutor would do, but for the interpreter's lock: its threads take it several times for each job, and while
one waits for it, every turn of the loop wakes it in vain, for 10 to 50 us of the loop's own time.

They have the lowest scheduling priority (`runtime.os_scheduling`), so that neither the loop nor other processes wait for them.

Rules: threads start when they are needed, and take what comes first. While the system grants none at all, the loop does
what they were to do: slow, but it goes on. A thread runs only the job it was given, and reports through
`call_soon_threadsafe`.
Invariant: `done` of every job is called once, on the loop, unless the loop ends before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from runtime.os_scheduling import lower_priority

T = TypeVar("T")
# A job, and the callback for its end.
Given = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class OsThreads:
    """At most `limit` threads, called `name`. Created on the loop that they serve; the owner closes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, name: str) -> None:
        self._loop = loop
        self._limit = limit
        self._name = name
        self._threads = 0
        self._under_way = 0  # jobs that were given and are not reported yet
        self._jobs: SimpleQueue[Given | None] = SimpleQueue()
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether a job started now would wait for another."""
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
        except RuntimeError:  # no memory for its stack, or too many of the user's
            if not self._threads:
                self._do(*self._only_job())
        else:
            self._threads += 1

    def _only_job(self) -> Given:
        given = self._jobs.get_nowait()  # each was done when it was given
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
                return  # the loop is closed: the process ends and nobody waits
            del given  # what it holds is not to live until the next one

    def _do(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Raises RuntimeError when the loop is closed."""
        result, error = None, None
        try:
            result = job()
        except BaseException as raised:  # noqa: BLE001 - not swallowed: its owner hears it on the loop
            error = raised
        self._loop.call_soon_threadsafe(self._finished, done, result, error)

    def _finished(
        self, done: Callable[[Any, BaseException | None], None], result: Any, error: BaseException | None
    ) -> None:
        self._under_way -= 1
        done(result, error)

    def close(self) -> None:
        """Drop jobs that have not begun; those that have are not waited for."""
        self._is_closed = True
        with suppress(Empty):
            while given := self._jobs.get_nowait():
                self._finished(given[1], None, asyncio.CancelledError())
        for _ in range(self._threads):
            self._jobs.put(None)
