"""The disk interface, part two: queues and threads for calls that may wait for a disk.

`DiskQueue`: one FIFO per name; a log directory has one for its logs and one for its other files. `write` jobs run
inline on the event loop while the queue is idle and its recent writes were fast; after a slow write, or while anything is
queued, they go to the queue's thread. `run` jobs (fsync, open, rename, truncate, unlink, checkpoints) always run in the
thread. Both kinds share one order.
`Readers`: a small pool of threads for cold reads, without order.
Rules: a job accesses only what was passed to it; `done` is called on the loop. In simulation both run on virtual time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from runtime.disk.filesystem import Buffer, File

T = TypeVar("T")


class DiskQueue(Protocol):
    def write(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `job` (a `File.write_at`) now or later, in order; then call `done` on the loop, immediately when it ran
        inline."""

    def write_now(self, file: File, content: Buffer, position: int) -> bool:
        """Perform `write` for one buffer if it can run inline now. Returns False, and does nothing, when it would have to be
        queued. Raises OSError."""

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        """Run `job` in the thread, in order; the awaitable raises its exception."""

    async def drain(self) -> None:
        """Return when everything queued before this call has run."""

    async def close(self) -> None: ...


class Readers(Protocol):
    def run(self, job: Callable[[], T]) -> Awaitable[T]: ...

    async def close(self) -> None: ...


class Disk(Protocol):
    """Creates queues and readers; owned by the composition root."""

    def queue(self, directory: str) -> DiskQueue: ...

    def readers(self) -> Readers: ...
