"""Releases the files and locks of log directories that are offline until the next start.

    fails  -->  its logs accept nothing  -->  work in it has ended  -->  files closed  -->  lock released

So a broken disk can be removed, repaired and examined while the broker continues with the others.

Rules: runs on the event loop. A file is closed only behind everything that may use its descriptor: jobs of the directory's
queues are waited for, threads that read it hold it (`Segment.pins`). A disk that never answers keeps the lock, and nothing else
waits for it.
Invariant: after the lock was released the broker changes nothing in the directory.
Source: Kafka LogManager.handleLogDirFailure, UnifiedLog.closeHandlers; KIP-112.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from runtime.clock import Clock
from runtime.error_texts import reason_of
from runtime.tasks import TaskScope
from storage.directories.online_directory import OnlineDirectory
from storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class OfflineDirectories:
    """The offline directories. `reasons` by path; `since_ms`, milliseconds since 1970, of those that were online before.
    `abort_cleaning(log)` returns when no cleaner works on a log."""

    __slots__ = ("_abort_cleaning", "_clock", "_leaving", "_tasks", "reasons", "since_ms")

    def __init__(
        self, tasks: TaskScope, clock: Clock, abort_cleaning: Callable[[PartitionLog], Awaitable[None]]
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._abort_cleaning = abort_cleaning
        self._leaving: dict[str, OnlineDirectory] = {}
        # Told in words: an error holds the frames that it came through, and these hold logs.
        self.reasons: dict[str, str] = {}
        self.since_ms: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def __str__(self) -> str:
        return ", ".join(self.reasons)

    def note(self, path: str, error: OSError) -> None:
        self.reasons[path] = reason_of(error)
        logger.error("log directory offline: directory=%s error=%s", path, self.reasons[path])

    def take_offline(self, directory: OnlineDirectory, error: OSError) -> None:
        """Fail the directory's logs, which are not served any more; close their files and release the lock when possible."""
        self._leaving[directory.path] = directory
        self.since_ms[directory.path] = self._clock.wall_ms()
        for log in list(directory.all_logs()):
            log.take_offline(error)
        if not self._tasks.is_closed:
            self._tasks.spawn(self._let_go_of(directory), name=f"let go of {directory.path}")

    async def _let_go_of(self, directory: OnlineDirectory) -> None:
        for log in list(directory.all_logs()):
            await self._abort_cleaning(log)
            await log.close(flush=False)
        await directory.release_lock()
        self._leaving.pop(directory.path, None)

    async def close(self, timeout_ms: int) -> None:
        """Release the remaining directories, whether or not their disks respond."""
        for directory in list(self._leaving.values()):
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._let_go_of(directory)
            except TimeoutError:
                logger.warning("log directory not closed in time: directory=%s", directory.path)
        self.abandon()

    def abandon(self) -> None:
        """Release the locks as things are."""
        for directory in self._leaving.values():
            directory.files.unlock()
        self._leaving.clear()
