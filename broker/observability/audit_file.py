"""The file of the audit log: lines that are appended off the event loop.

Rules: `append` never waits. Lines that wait are bounded by LIMIT_BYTES; beyond it they are dropped and counted, and a line
in their place says how many. Before each write the file at the path is compared with what was written: one that was moved,
removed or truncated, as rotation does, is opened anew, so that no signal is needed; `reopen` is for programs that send one.
Invariants: lines are whole and in order. After a failed write its lines count as dropped: part of them may be in the file, and
the next line begins a new one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from runtime.error_texts import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.disk.disk_queue import DiskQueue
    from runtime.disk.filesystem import File, FileSystem
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

LIMIT_BYTES = 4 * 1024 * 1024


class AuditFile:
    """`open` once, then `append`, then `close`."""

    def __init__(self, path: str, filesystem: FileSystem, queue: DiskQueue, tasks: TaskScope) -> None:
        """`queue` has no other user; the owner of `tasks` closes them after `close`."""
        self._path = path
        self._filesystem = filesystem
        self._queue = queue
        self._tasks = tasks
        self._file: File | None = None
        self._position = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_writing = False
        # Lines that were dropped and that no line has reported yet: before those that wait, and after them.
        self._lost_count = self._refused_count = 0
        self._has_failed = False
        self.dropped_count = 0

    async def open(self) -> None:
        """Open the file, and create it if it is missing. Raises OSError."""
        try:
            await self._queue.run(self._open)
        except OSError as error:
            raise OSError(f"barnabas.audit.log={self._path}: {error.strerror or error}") from error

    def reopen(self) -> None:
        """Open the file at the path anew, behind what waits to be written."""
        if not self._tasks.is_closed:
            self._tasks.spawn(self._reopen(), name="open the audit log anew")

    def append(self, line: Mapping[str, object]) -> None:
        """Write a line of JSON, now or later."""
        encoded = (
            json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
        )
        if self._waiting_bytes + len(encoded) > LIMIT_BYTES or self._tasks.is_closed:
            self.dropped_count += 1
            self._refused_count += 1
            return
        self._waiting.append(encoded)
        self._waiting_bytes += len(encoded)
        if not self._is_writing:
            self._is_writing = True
            self._tasks.spawn(self._write_waiting(), name="write the audit log")

    async def close(self) -> None:
        """Write what waits, and close the file."""
        while self._is_writing:
            await self._queue.drain()
            await asyncio.sleep(0)
        await self._queue.run(self._close)

    async def _reopen(self) -> None:
        try:
            await self._queue.run(self._open)
        except OSError as error:  # the next line tries again
            logger.warning("audit log not opened anew: path=%s error=%s", self._path, reason_of(error))
        else:
            logger.info("audit log opened anew: path=%s", self._path)

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                lines, self._waiting, self._waiting_bytes = self._waiting, [], 0
                lost, refused = self._lost_count, self._refused_count
                self._lost_count = self._refused_count = 0
                content = b"".join([*_dropped(lost), *lines, *_dropped(refused)])
                try:
                    await self._queue.run(lambda content=content: self._write(content))  # type: ignore[misc]
                except OSError as error:
                    self.dropped_count += len(lines)
                    self._lost_count += lost + len(lines) + refused
                    if not self._has_failed:
                        logger.warning("audit log not written: path=%s error=%s", self._path, reason_of(error))
                    self._has_failed = True
                else:
                    self._has_failed = False
        finally:
            self._is_writing = False

    # --- in the queue's thread ---

    def _open(self) -> None:
        self._close()
        self._file = self._filesystem.open(self._path, create=True)
        self._position = self._file.size()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _write(self, content: bytes) -> None:
        if self._has_failed or not self._is_at_path():
            self._open()
        assert self._file is not None
        start = b"\n" if self._has_failed and self._position else b""
        try:
            self._file.write_at([start + content], self._position)
        except OSError:
            self._close()
            raise
        self._position += len(start) + len(content)

    def _is_at_path(self) -> bool:
        """Return whether the file at the path is, as far as one can tell, the one that was written."""
        try:
            return self._file is not None and self._filesystem.stat(self._path).size_bytes == self._position
        except FileNotFoundError:
            return False


def _dropped(count: int) -> list[bytes]:
    """Return the line that says how many lines are missing here, if any are."""
    return [json.dumps({"event": "dropped", "lines": count}).encode() + b"\n"] if count else []
