"""Removing what was set aside (`-delete` folders, `.deleted` files) once `file.delete.delay.ms` has passed.

Rules: one task for everything, alive only while something waits; removal runs in a queue of the directory that no append
waits in: a gigabyte takes the file system a while. What is left at a stop goes at the next start.
Source: Kafka LogManager.deleteLogs.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from functools import partial

from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue
from runtime.disk.filesystem import FileSystem
from runtime.tasks import TaskScope

# A delay may be lowered while something waits: so often is looked again.
_LOOK_MS = 1000


class DelayedRemoval:
    """`queue_of(path)` answers the queue of its directory, None when that is offline; `on_failed` hears of IO errors."""

    def __init__(
        self,
        filesystem: FileSystem,
        clock: Clock,
        tasks: TaskScope,
        queue_of: Callable[[str], DiskQueue | None],
        on_failed: Callable[[str, OSError], None],
    ) -> None:
        self._filesystem = filesystem
        self._clock = clock
        self._tasks = tasks
        self._queue_of = queue_of
        self._on_failed = on_failed
        self._waiting: list[tuple[int, str]] = []  # a heap of (due, path)
        self._is_running = False

    def later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove `paths`, files or folders, after `delay_ms`."""
        due_ms = self._clock.monotonic_ms() + delay_ms
        for path in paths:
            heapq.heappush(self._waiting, (due_ms, path))
        if self._waiting and not self._is_running and not self._tasks.is_closed:
            self._is_running = True
            self._tasks.spawn(self._run(), name="file.delete.delay.ms")

    async def _run(self) -> None:
        while self._waiting:
            due_ms, path = self._waiting[0]
            wait_ms = due_ms - self._clock.monotonic_ms()
            if wait_ms > 0:
                await asyncio.sleep(min(wait_ms, _LOOK_MS) / 1000)
                continue
            heapq.heappop(self._waiting)
            queue = self._queue_of(path)
            if queue is None:
                continue
            try:
                await queue.run(partial(self._remove, path))
            except OSError as error:
                self._on_failed(path, error)
        self._is_running = False

    def _remove(self, path: str) -> None:
        """A job."""
        if self._filesystem.is_directory(path):
            self._filesystem.remove_tree(path)
        else:
            self._filesystem.unlink(path)
