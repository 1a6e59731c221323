"""Why a log takes no records, and what becomes of its pending writes when the disk refuses one.

    fails    an IO error: for good, the log directory goes offline
    halts    there is no room: until the remains of the refused write are truncated (`storage.log.truncation`)

In both cases the log ends at its written prefix, and pending writes behind it fail.

Rules: methods run on the event loop; jobs set `io_error` in the queue's thread.
Invariants: after a refused write nothing behind the written prefix is reported; `current` is set whenever a log may have a
reason to take no records, so that an append looks at nothing else; while `io_error` is set, no write or job of the log touches
the disk.
Source: Kafka LocalLog.maybeHandleIOException; none for a full disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from protocol.errors import ErrorCode, KafkaError
from storage.free_space import NoRoom, is_no_space
from storage.log.writing.pending_writes import PendingWrites
from storage.log.writing.writer_context import WriterContext
from storage.segments.segment_list import Segments


class WriteRefusals:
    """The refusals of one log. `failure` is final, `halted` is set while there is no room; `current` is set by either, or by
    the owner of a directory that is almost full. `io_error` is the first error of any write or job."""

    __slots__ = ("_context", "_pending", "_segments", "current", "failure", "halted", "io_error")

    def __init__(self, context: WriterContext, segments: Segments, pending: PendingWrites) -> None:
        self._context = context
        self._segments = segments
        self._pending = pending
        self.failure: KafkaError | None = None
        self.halted: NoRoom | None = None
        self.current: KafkaError | None = None
        self.io_error: OSError | None = None

    @property
    def error(self) -> KafkaError | None:
        """The error of a failed or halted log."""
        return self.failure or self.halted

    @property
    def may_use_disk(self) -> bool:
        """Whether jobs of this log may use the disk; otherwise appends stay in memory."""
        return not (self._pending.is_buffering or self.failure is not None or self.halted is not None)

    def fail(self, cause: OSError, *, is_known: bool = False) -> None:
        """Fail all pending writes after an IO error, and end the log at its written prefix. `is_known`: the owner of the log
        directory knows the error, and is not notified."""
        if self.failure is not None:
            return
        self.io_error = self.io_error or cause
        context = self._context
        self.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Writing to {context.directory} failed: {cause}")
        self._drop_all(
            self.failure,
            context.on_taken_offline if is_known else partial(context.on_write_failed, self.failure, cause),
        )

    def on_refused(self, cause: OSError) -> None:
        """Called when the disk refused a write or job: the log halts when there was no room, and fails otherwise."""
        if not is_no_space(cause):
            self.fail(cause)
            return
        if self.error is not None:
            return
        self.io_error = self.io_error or cause
        self.halted = NoRoom(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room for {self._context.directory}: {cause}")
        self._drop_all(self.halted, partial(self._context.on_halted, cause))

    def _drop_all(self, error: KafkaError, notify_context: Callable[[], None]) -> None:
        """Fail the pending writes. The context is notified before their callbacks are called."""
        self.current = error
        failed = self._pending.drop_all()
        for segment in self._segments:
            segment.end_bytes = segment.written_bytes
        notify_context()
        for done in failed:
            done(error)
        self._pending.wake_if_idle()

    # --- after the disk was full ---

    def accept_jobs(self) -> None:
        """Accept jobs again, which the truncation of a halted log needs. No write or job that ended with the error is under way
        any more."""
        assert self.halted is not None and not self._pending.jobs_count
        self.io_error = None

    @property
    def is_sound(self) -> bool:
        """Whether no job was refused since `accept_jobs`."""
        return self.failure is None and self.io_error is None

    def resume(self, refusal: KafkaError | None) -> None:
        """End the halt. `refusal`: a remaining refusal of the directory."""
        self.halted, self.current = None, refusal
