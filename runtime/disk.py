"""The disk door, part two: who may wait for a disk, and in what order.

`DiskQueue`: one FIFO per name; a log directory has one for its logs and one for what lies beside them. `write` jobs run
inline on the event loop while the queue is idle and its recent writes were fast; after a slow write, or while anything is
queued, they go to the queue's thread. `run` jobs (fsync, open, rename, truncate, unlink, checkpoints) always run in the
thread. Order is one FIFO over both.
`Readers`: a small pool of threads for cold reads, without order.
Rules: a job touches only what it was given; `done` is called on the loop. In simulation both run on virtual time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from runtime.filesystem import Buffer, File

T = TypeVar("T")


class DiskQueue(Protocol):
    def write(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `job` (a `File.write_at`) now or later, in order; then `done` on the loop, at once when it ran inline."""

    def write_now(self, file: File, content: Buffer, position: int) -> bool:
        """`write` for one buffer where it can be inline and done at once. False, and nothing has happened, when it has
        to wait its turn. Raises OSError."""

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        """Run `job` in the thread, in order; its exception is the awaitable's."""

    async def drain(self) -> None:
        """Return when everything queued before this call has run."""

    async def close(self) -> None: ...


class Readers(Protocol):
    def run(self, job: Callable[[], T]) -> Awaitable[T]: ...

    async def close(self) -> None: ...


class Disk(Protocol):
    """Makes the above; the composition root owns it."""

    def queue(self, directory: str) -> DiskQueue: ...

    def readers(self) -> Readers: ...
