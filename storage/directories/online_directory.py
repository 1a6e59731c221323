"""A log directory that is online: its files, its queues, its checkpoints, and the logs in it.

Rules: runs on the event loop; appends, truncations, swaps and flushes go through `queue` in order, other files (checkpoints,
removal of what was set aside) through `upkeep_queue`, so that no append waits for their fsync; code that changes such files
keeps the directory `in_use`, because it may go offline meanwhile; loading goes through the logs in batches, so that ten
thousand of them cost some system calls each and no task.
Source: Kafka LogManager.loadLogs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from runtime.disk.disk_queue import DiskQueue, Readers
from runtime.disk.filesystem import FileSystem
from runtime.slices import Slices
from storage.description import UNKNOWN_LAG, DirectoryDescription, LogDescription
from storage.directories.checkpoints import Checkpoints, recovery_points
from storage.directories.log_directory import RECOVERY_POINT_FILE, LogDirectory
from storage.free_space import Room
from storage.log.loading import LoadedLog, LoadRequest, load_log
from storage.log.log_environment import LogEnvironment
from storage.log.partition_log import PartitionLog

_LOAD_BATCH = 64
_RECOVERY_BATCH = 4  # each may take long, and the threads are to end together
_ROOMS = (Room.OPEN, Room.RESERVE, Room.NONE)


class OnlineDirectory:
    """One online directory with its logs."""

    __slots__ = (
        "_holders",
        "_let_go_waiter",
        "checkpoints",
        "environment",
        "files",
        "future_logs",
        "is_clean",
        "is_loaded",
        "logs",
        "queue",
        "reserved",
        "upkeep_queue",
    )

    def __init__(
        self, files: LogDirectory, queue: DiskQueue, upkeep_queue: DiskQueue, environment: LogEnvironment
    ) -> None:
        self.files = files
        self.queue = queue
        self.upkeep_queue = upkeep_queue
        self.environment = environment
        self.checkpoints = Checkpoints(files, queue, upkeep_queue)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Copies of logs of other directories, each to take its log's place when it has everything.
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        self.is_clean = False
        self.is_loaded = False
        # Logs that are being made here.
        self.reserved = 0
        self._holders = 0
        self._let_go_waiter: asyncio.Future[None] | None = None

    @property
    def path(self) -> str:
        return self.files.path

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the lock of the directory within the block."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders and self._let_go_waiter is not None:
                self._let_go_waiter.set_result(None)
                self._let_go_waiter = None

    async def release_lock(self) -> None:
        """Release the lock of a directory that is offline, and whose logs are closed, when nothing uses it."""
        while self._holders:
            if self._let_go_waiter is None:
                self._let_go_waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._let_go_waiter)
        await self.queue.drain()
        await self.upkeep_queue.drain()
        self.files.unlock()

    def placement_rank(self) -> tuple[int, int]:
        """The rank of the directory for a new log: the least is the best. Without room the log might not be created, and would
        accept no records."""
        return _ROOMS.index(self.environment.space.room), len(self.logs) + self.reserved

    def all_logs(self) -> Iterator[PartitionLog]:
        """The served logs and the copies. Of one partition there is at most one here."""
        return chain(self.logs.values(), self.future_logs.values())

    def logs_by_key(self) -> Mapping[TopicPartition, PartitionLog]:
        """All logs by partition, for checkpoints."""
        return {**self.logs, **self.future_logs} if self.future_logs else self.logs

    def halted_logs(self) -> list[PartitionLog]:
        """The logs that are halted, because there was no room for a write."""
        return [log for log in self.all_logs() if log.is_halted]

    async def describe(
        self,
        served: Mapping[TopicPartition, PartitionLog],
        wanted: set[TopicPartition] | None,
        readers: Readers,
        slices: Slices,
    ) -> DirectoryDescription:
        """`served`: the logs of all directories; `wanted` None: every log that is here."""
        usable_bytes = await readers.run(self.files.free_bytes)
        total_bytes = await readers.run(self.files.total_bytes)
        logs = [
            LogDescription(
                *key,
                log.size_bytes,
                max(log.high_watermark - log.log_end_offset, 0) if key in self.logs else _lag(served.get(key), log),
                is_future=key not in self.logs,
            )
            async for key, log in slices.over(sorted(self.logs_by_key().items()))
            if wanted is None or key in wanted
        ]
        return DirectoryDescription(self.path, ErrorCode.NONE, total_bytes, usable_bytes, logs)

    async def load(
        self,
        folders: Mapping[TopicPartition, str],
        request_for: Callable[[TopicPartition, str], LoadRequest],
        register: Callable[[TopicPartition, str, LoadedLog], object],
        threads: int,
    ) -> None:
        """Open the logs in `folders`, `threads` at once, and `register` each. Raises OSError."""
        pending = list(folders.items())
        size = _LOAD_BATCH if self.is_clean else _RECOVERY_BATCH
        batches = deque(pending[at : at + size] for at in range(0, len(pending), size))
        run = self.queue.run if threads == 1 else self.environment.readers.run
        under_way: deque[tuple[list[tuple[TopicPartition, str]], Awaitable[list[LoadedLog]]]] = deque()
        try:
            while batches or under_way:
                while batches and len(under_way) < threads:
                    batch = batches.popleft()
                    requests = [request_for(key, path) for key, path in batch]
                    for request in requests:  # ten thousand logs keep when they were opened
                        request.now_ms = requests[0].now_ms
                    under_way.append((batch, run(partial(_load_all, self.environment.filesystem, requests))))
                batch, loading = under_way.popleft()
                for (key, path), log in zip(batch, await loading, strict=True):
                    register(key, path, log)
        finally:
            # The directory is another's when this has returned, so nothing may be at work in it.
            await asyncio.gather(*(loading for _, loading in under_way), return_exceptions=True)
        self.is_loaded = True
        if not self.checkpoints.had_recovery_points:
            await self.checkpoints.write(RECOVERY_POINT_FILE, recovery_points(self.logs))
        await self.checkpoints.follow(self.logs)


def _lag(served: PartitionLog | None, copy: PartitionLog) -> int:
    """How far a copy is behind its log."""
    return UNKNOWN_LAG if served is None else served.log_end_offset - copy.log_end_offset


def _load_all(filesystem: FileSystem, requests: Sequence[LoadRequest]) -> list[LoadedLog]:
    """A job."""
    return [load_log(filesystem, request) for request in requests]
