"""Runs one log's jobs in order, in the queue of its directory, and counts them until all are reported.

Rules: a job runs in the queue's thread behind the writes and jobs that were queued before; `done` runs on the event loop.
Invariant: after the first error, which is kept until `resume`, no write or job of this log touches the disk.
Source: none in Kafka, whose threads write while they hold the log's lock.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Protocol

from runtime.disk import DiskQueue
from runtime.error_texts import reason_of
from runtime.filesystem import Buffer
from storage.segments.segment import Segment

logger = logging.getLogger(__name__)


class JobsOwner(Protocol):
    """The log's writer, as this module needs it."""

    def on_job_ended(self) -> None:
        """Called when a job has ended and `count` has fallen."""

    def fail(self, cause: OSError) -> None:
        """Fail the log for good: nothing of it can be trusted after `cause`."""

    def on_refused(self, cause: OSError) -> None:
        """Called when the disk refused a job: the log halts when there was no room, and fails otherwise."""


class LogJobs:
    """Runs jobs. `count` jobs were started and not reported yet; `error` is the first error of any write or job."""

    __slots__ = ("_queue", "count", "error", "owner")

    def __init__(self, queue: DiskQueue, owner: JobsOwner) -> None:
        self._queue = queue
        self.owner = owner
        self.count = 0
        self.error: OSError | None = None

    def run(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Queue `job`, then call `done` on the event loop."""

        def guarded() -> None:
            if self.error is None:
                try:
                    job()
                except OSError as error:
                    self.error = error
                except Exception as error:  # noqa: BLE001 - logged, and the log fails
                    self.error = _of_a_bug(error)

        def finished(error: OSError | None) -> None:
            done(error)
            self.ended()

        self.begun()
        self._queue.run(guarded)
        self._queue.write(self._raise_error, finished)

    def run_or_fail(self, job: Callable[[], None]) -> None:
        """Queue `job`; an error fails the log, or halts it when there was no room."""
        self.run(job, self.refuse_on)

    def refuse_on(self, error: OSError | None) -> None:
        """Halt or fail the log when a job was reported with `error`."""
        if error is not None:
            self.owner.on_refused(error)

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error

    def write(self, segment: Segment, records: Buffer, position: int) -> None:
        """A job: write bytes into a segment."""
        if self.error is not None:
            raise self.error
        try:
            assert segment.file is not None
            segment.file.write_at((records,), position)
        except OSError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = _of_a_bug(error)
            raise self.error from error

    def resume(self) -> None:
        """Forget the error after the disk was full. No job that ended with it is under way any more."""
        assert not self.count
        self.error = None

    def begun(self) -> None:
        """Count a job that runs outside of this queue."""
        self.count += 1

    def ended(self) -> None:
        self.count -= 1
        self.owner.on_job_ended()


def _of_a_bug(error: Exception) -> OSError:
    """Wrap an unexpected exception of a job. It is a bug of ours: nothing behind it may be reported as written, and nothing may
    wait for it, so the log fails."""
    logger.error("background job of a log failed", exc_info=error)
    return OSError(errno.EIO, f"A job failed: {reason_of(error)}")
