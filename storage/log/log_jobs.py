"""One log's jobs: in order in the queue of its directory, and known until all are reported.

Rules: a job runs in the queue's thread behind the writes and jobs that were queued before; `done` runs on the event loop.
Invariant: after the first error, which is kept until `go_on`, no write or job of this log touches the disk.
Source: none in Kafka, whose threads write while they hold the log's lock.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Protocol

from runtime.disk import DiskQueue
from runtime.filesystem import Buffer
from runtime.reasons import reason_of
from storage.segments.segment import Segment

logger = logging.getLogger(__name__)


class JobsOwner(Protocol):
    """The log's writer."""

    def on_job_ended(self) -> None:
        """One job fewer is on its way."""

    def fail(self, cause: OSError) -> None:
        """Nothing of the log can be trusted any more."""

    def on_refused(self, cause: OSError) -> None:
        """The disk did not do what it was to do: the log fails, unless there was only no room."""


class LogJobs:
    """`count` jobs were begun and not reported yet; `error` is the first one that any write or job has met."""

    __slots__ = ("_queue", "count", "error", "owner")

    def __init__(self, queue: DiskQueue, owner: JobsOwner) -> None:
        self._queue = queue
        self.owner = owner
        self.count = 0
        self.error: OSError | None = None

    def run(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `job` behind what is queued, then `done`."""

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
        """Run `job` behind what is queued; an error fails the log, or halts it where there was no room."""
        self.run(job, self.refuse_on)

    def refuse_on(self, error: OSError | None) -> None:
        """What becomes of the log, when its job is reported so."""
        if error is not None:
            self.owner.on_refused(error)

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error

    def write(self, segment: Segment, records: Buffer, position: int) -> None:
        """A job: put bytes into a segment."""
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

    def go_on(self) -> None:
        """There was no room, and now there may be: none of the jobs that ended so is under way any more."""
        assert not self.count
        self.error = None

    def begun(self) -> None:
        """A job that runs elsewhere is on its way."""
        self.count += 1

    def ended(self) -> None:
        self.count -= 1
        self.owner.on_job_ended()


def _of_a_bug(error: Exception) -> OSError:
    """A job that ends otherwise than the disk has it end is a mistake of ours: nothing behind it may be reported as written,
    and nobody may wait for it, so the log fails."""
    logger.error("background job of a log failed", exc_info=error)
    return OSError(errno.EIO, f"A job failed: {reason_of(error)}")
