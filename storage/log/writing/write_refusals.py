"""Why a log takes no records, and what becomes of its pending writes when the disk refuses one.

    fails    an IO error: for good, the log directory goes offline
    halts    there is no room: until the remains of the refused write are truncated (`LogTruncation.resume`)

In both cases the log ends at its written prefix, and pending writes behind it fail.

Rules: methods run on the event loop; jobs set `io_error` in the queue's thread.
Invariants: after a refused write nothing behind the written prefix is reported; `current` is set whenever a log may have a
reason to take no records, so that an append looks at nothing else; while `io_error` is set, no write or job of the log touches
the disk.
Source: Kafka LocalLog.maybeHandleIOException; none for a full disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.error_texts import reason_of
from storage.free_space import NoRoom, is_no_space
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.writing.pending_writes import Done, PendingWrites
from storage.segments.segment_list import Segments

logger = logging.getLogger(__name__)


class WriteRefusals:
    """The refusals of one log. `failure` is final, `halted` is set while there is no room; `current` is set by either, or by
    the owner of a directory that is almost full. `io_error` is the first error of any write or job."""

    __slots__ = (
        "_directory",
        "_environment",
        "_key",
        "_offsets",
        "_pending",
        "_segments",
        "current",
        "failure",
        "halted",
        "io_error",
    )

    def __init__(
        self,
        key: TopicPartition,
        directory: str,
        offsets: LogOffsets,
        segments: Segments,
        environment: LogEnvironment,
        pending: PendingWrites,
    ) -> None:
        self._key = key
        self._directory = directory
        self._offsets = offsets
        self._environment = environment
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
        self.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Writing to {self._directory} failed: {cause}")
        failed = self._drop_all(self.failure)
        if not is_known:
            logger.error("log failed: topic=%s partition=%d error=%s", *self._key, reason_of(cause))
            self._environment.on_failed(self._directory, cause)
        self._report(failed, self.failure)

    def on_refused(self, cause: OSError) -> None:
        """Called when the disk refused a write or job: the log halts when there was no room, and fails otherwise."""
        if not is_no_space(cause):
            self.fail(cause)
            return
        if self.error is not None:
            return
        self.io_error = self.io_error or cause
        self.halted = NoRoom(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room for {self._directory}: {cause}")
        dropped = self._drop_all(self.halted)
        logger.warning("log halted: topic=%s partition=%d error=%s", *self._key, cause)
        self._environment.on_no_room(self._directory, cause)
        self._report(dropped, self.halted)

    def _drop_all(self, error: KafkaError) -> list[Done]:
        """End the log at its written prefix. Returns what the pending writes have to report to, after the owner of the log
        directory was notified."""
        self.current = error
        dropped = self._pending.drop_all()
        for segment in self._segments:
            segment.end_bytes = segment.written_bytes
        self._offsets.end_at_written()
        return dropped

    def _report(self, dropped: list[Done], error: KafkaError) -> None:
        for done in dropped:
            done(error)
        self._pending.wake_if_idle()

    # --- the free space of the directory ---

    def note_room(self) -> None:
        """Note that the free space of the log directory has crossed its minimum, or is looked at for the first time."""
        if self.error is None:
            self.current = self._environment.space.refusal(self._key[0], is_own=False)

    def check(self, *, is_own: bool) -> None:
        """Raise the reason why nothing is accepted. `is_own`: a coordinator appends, whose records a directory that is almost
        full still accepts."""
        error = self.error
        if error is not None:
            raise error.again()
        now = self._environment.space.refusal(self._key[0], is_own=is_own)
        if now is not None:
            raise now

    # --- errors of those who work on the log's files ---

    @contextmanager
    def of_io_errors(self) -> Iterator[None]:
        """Turn an IO error in the block into a failure of the log, or halt it when there was no room. Raises
        KAFKA_STORAGE_ERROR."""
        try:
            yield
        except OSError as cause:
            self.on_refused(cause)
            error = self.error
            assert error is not None
            raise error.again() from cause

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
