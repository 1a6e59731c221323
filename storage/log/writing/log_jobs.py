"""Runs one log's jobs in order, in the queue of its directory.

Rules: a job runs in the queue's thread behind the writes and jobs that were queued before; `done` runs on the event loop. A job
is pending (`PendingWrites`) until it is reported.
Invariant: after the first error, which `WriteRefusals` keeps, no write or job of this log touches the disk.
Source: none in Kafka, whose threads write while they hold the log's lock.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from runtime.disk.disk_queue import DiskQueue
from runtime.disk.filesystem import Buffer
from runtime.error_texts import reason_of
from storage.log.writing.pending_writes import PendingWrites
from storage.log.writing.write_refusals import WriteRefusals
from storage.segments.segment import Segment

logger = logging.getLogger(__name__)


class LogJobs:
    """Runs jobs and the queued writes of one log."""

    __slots__ = ("_pending", "_queue", "_refusals")

    def __init__(self, queue: DiskQueue, pending: PendingWrites, refusals: WriteRefusals) -> None:
        self._queue = queue
        self._pending = pending
        self._refusals = refusals

    def run(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Queue `job`, then call `done` on the event loop."""

        def guarded() -> None:
            refusals = self._refusals
            if refusals.io_error is None:
                try:
                    job()
                except OSError as error:
                    refusals.io_error = error
                except Exception as error:  # noqa: BLE001 - logged, and the log fails
                    refusals.io_error = _of_a_bug(error)

        def finished(error: OSError | None) -> None:
            done(error)
            self._pending.job_ended()

        self._pending.job_begun()
        self._queue.run(guarded)
        self._queue.write(self._raise_error, finished)

    def run_or_fail(self, job: Callable[[], None]) -> None:
        """Queue `job`; an error fails the log, or halts it when there was no room."""
        self.run(job, self.refuse_on)

    def refuse_on(self, error: OSError | None) -> None:
        """Halt or fail the log when a job was reported with `error`."""
        if error is not None:
            self._refusals.on_refused(error)

    async def run_and_wait(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Return when `job` is reported. Other jobs may be queued behind it: under load there always are some, so this waits
        only for its own."""
        reported = asyncio.get_running_loop().create_future()

        def finished(error: OSError | None) -> None:
            try:
                done(error)
            finally:
                if not reported.done():
                    reported.set_result(None)

        self.run(job, finished)
        await reported

    async def await_queued(self) -> None:
        """Return when all jobs that are queued now are reported."""
        await self.run_and_wait(_nothing, self.refuse_on)

    def _raise_error(self) -> None:
        error = self._refusals.io_error
        if error is not None:
            raise error

    def write(self, segment: Segment, records: Buffer, position: int) -> None:
        """A job: write bytes into a segment."""
        refusals = self._refusals
        if refusals.io_error is not None:
            raise refusals.io_error
        try:
            assert segment.file is not None
            segment.file.write_at((records,), position)
        except OSError as error:
            refusals.io_error = error
            raise
        except Exception as error:
            refusals.io_error = _of_a_bug(error)
            raise refusals.io_error from error


def _nothing() -> None:
    """A job that only marks a position in the queue."""


def _of_a_bug(error: Exception) -> OSError:
    """Wrap an unexpected exception of a job. It is a bug of ours: nothing behind it may be reported as written, and nothing may
    wait for it, so the log fails."""
    logger.error("background job of a log failed", exc_info=error)
    return OSError(errno.EIO, f"A job failed: {reason_of(error)}")
