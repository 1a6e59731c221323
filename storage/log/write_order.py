"""Keeps the order of a log's writes, and handles refusals of the disk for the writes that are pending.

    fails      an IO error: for good, the log directory goes offline halts      there is no room: until the remains of the
    refused write are truncated (`LogEnds.resume`) buffers    another log is about to replace it: appends are kept in memory,
    and passed to that log

In the first two the log ends at its written prefix, and pending writes behind it fail.

Rules: methods run on the event loop. The lower half of `storage.log.log_writer`.
Invariants: every `done` is called exactly once; after a refused write nothing behind the written prefix is reported;
`refusal` is set whenever a log may have a reason to take no records, so that an append looks at nothing else.
Source: Kafka LocalLog.maybeHandleIOException; none for a full disk; Partition.maybeReplaceCurrentWithFutureReplica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader
from runtime.filesystem import Buffer
from storage.free_space import NoRoom, is_no_space
from storage.log.log_environment import LogEnvironment
from storage.log.log_jobs import LogJobs
from storage.segments.segment import OpenedSegment, Segment
from storage.segments.segment_list import Segments
from storage.segments.txn_index import AbortedTxn

Done = Callable[[KafkaError | None], None]


class WriterContext(Protocol):
    """The log, as its writer needs it."""

    config: LogConfig

    @property
    def directory(self) -> str: ...

    def producer_snapshot(self, offset: int) -> bytes | None:
        """Return a snapshot of all producers before `offset`; None when their state there is not known any more."""

    def check_end(self, opened: OpenedSegment) -> None:
        """Called when the last segment was opened, and nothing was appended to it yet: the first time, its file shows whether
        the log ends where it is expected to."""

    def keep_epochs(self) -> None:
        """Flush the leader epochs, because the recovery point is about to move."""

    def on_write_failed(self, error: KafkaError, cause: OSError) -> None: ...

    def on_taken_offline(self) -> None:
        """Called when the log has failed, and its owner knows already."""

    def on_halted(self, cause: OSError) -> None: ...


class PendingWrite:
    """Batches with offsets that are not written yet."""

    __slots__ = (
        "aborted",
        "done",
        "headers",
        "max_timestamp",
        "next_offset",
        "now_ms",
        "offset_of_max_timestamp",
        "records",
    )

    def __init__(
        self,
        records: Buffer,
        next_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        now_ms: int,
        done: Done,
        aborted: Sequence[AbortedTxn] = (),
        headers: Sequence[BatchHeader] = (),
    ) -> None:
        self.records = records
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.now_ms = now_ms
        self.done = done
        self.aborted = aborted
        self.headers = headers
        """Those of several batches."""


class WriterOrder:
    """The queue state of a log's writer. `failure` is final, `halted` is set while there is no room; `refusal` is set by
    either, or by the owner of a directory that is almost full."""

    __slots__ = (
        "_awaiting_open",
        "_context",
        "_environment",
        "_idle_waiters",
        "_in_flight",
        "_is_buffering",
        "_jobs",
        "_segments",
        "_truncations",
        "failure",
        "halted",
        "log_end_offset",
        "lowest_truncation_offset",
        "needs_checkpoint",
        "recovery_point",
        "refusal",
    )

    def __init__(
        self,
        context: WriterContext,
        segments: Segments,
        environment: LogEnvironment,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self._context = context
        self._segments = segments
        self._environment = environment
        # (segment, end of the bytes in it, next offset, done) of each write that was queued and not reported yet. Lists:
        # they are short or empty, and an empty deque takes 760 bytes, in ten thousand logs.
        self._in_flight: list[tuple[Segment, int, int, Done]] = []
        self._awaiting_open: list[PendingWrite] = []
        self._is_buffering = False
        self._jobs = LogJobs(environment.queue, self)
        # Callers that wait until all of these have ended.
        self._idle_waiters: list[asyncio.Future[None]] = []
        # The number of truncations: a flush before one says nothing about the present content.
        self._truncations = 0
        self.lowest_truncation_offset: int | None = None
        self.failure: KafkaError | None = None
        self.halted: NoRoom | None = None
        self.refusal: KafkaError | None = None
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        # The recovery point or the first dirty offset has fallen, and the checkpoint is not updated yet.
        self.needs_checkpoint = False

    # --- order ---

    @property
    def truncations(self) -> int:
        """The number of truncations of the log."""
        return self._truncations

    @property
    def _is_busy(self) -> bool:
        return bool(self._in_flight or self._jobs.count or (self._awaiting_open and not self._is_buffering))

    async def await_idle(self) -> None:
        """Return when no write or job of this log is pending. Buffered appends do not count."""
        while self._is_busy:
            idle = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(idle)
            await idle

    def on_job_ended(self) -> None:
        """See `JobsOwner`."""
        if self._idle_waiters:
            self._wake_idle_waiters()

    def _wake_idle_waiters(self) -> None:
        if not self._is_busy:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def begin_at(self, offset: int) -> None:
        """Note that the segments before `offset` are gone."""
        self.recovery_point = max(self.recovery_point, offset)

    def end_at(self, offset: int) -> None:
        """Note that the log was truncated to `offset`. No write may be pending."""
        assert not self._in_flight and not self._awaiting_open
        self._truncations += 1
        self.log_end_offset = offset
        if offset < self.recovery_point:
            self.recovery_point, self.needs_checkpoint = offset, True

    # --- refusals of the disk ---

    def fail(self, cause: OSError, *, is_known: bool = False) -> None:
        """Fail all pending writes after an IO error, and end the log at its written prefix. `is_known`: the owner of the log
        directory knows the error, and is not notified."""
        if self.failure is not None:
            return
        self._jobs.error = self._jobs.error or cause
        self.failure = KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"Writing to {self._context.directory} failed: {cause}"
        )
        notify_context = (
            self._context.on_taken_offline if is_known else partial(self._context.on_write_failed, self.failure, cause)
        )
        self._drop_all(self.failure, notify_context)

    def on_refused(self, cause: OSError) -> None:
        """See `JobsOwner`."""
        if not is_no_space(cause):
            self.fail(cause)
            return
        if self.failure is not None or self.halted is not None:
            return
        self._jobs.error = self._jobs.error or cause
        self.halted = NoRoom(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room for {self._context.directory}: {cause}")
        self._drop_all(self.halted, partial(self._context.on_halted, cause))

    def _drop_all(self, error: KafkaError, notify_context: Callable[[], None]) -> None:
        """Fail the pending writes. The context is notified before their callbacks are called."""
        self.refusal = error
        self._is_buffering = False
        failed = [entry[3] for entry in self._in_flight] + [placement.done for placement in self._awaiting_open]
        self._in_flight.clear()
        self._awaiting_open.clear()
        for segment in self._segments:
            segment.end_bytes = segment.written_bytes
        notify_context()
        for done in failed:
            done(error)
        self._wake_idle_waiters()

    @property
    def is_buffering(self) -> bool:
        """Whether appends are buffered, see `buffer_appends`."""
        return self._is_buffering

    @property
    def _refuses_writes(self) -> bool:
        """Whether no job of this log may use the disk; appends stay in memory."""
        return self._is_buffering or self.failure is not None or self.halted is not None

    def accept_jobs(self) -> None:
        """Accept jobs again, which the truncation of a halted log needs. No write is pending."""
        assert self.halted is not None
        self._jobs.resume()

    @property
    def is_sound(self) -> bool:
        """Whether no job was refused since `accept_jobs`."""
        return self.failure is None and self._jobs.error is None

    def resume(self, refusal: KafkaError | None) -> None:
        """End the halt. `refusal`: a remaining refusal of the directory."""
        self.halted, self.refusal = None, refusal

    # --- replacement by another log ---

    @property
    def can_buffer_appends(self) -> bool:
        return self.failure is None and self.halted is None and not self._awaiting_open

    def buffer_appends(self) -> None:
        """Keep new appends in memory, until `take_buffered`, or `release` of the writer."""
        assert self.can_buffer_appends
        self._is_buffering = True
        # `enqueue_write` checks this list anyway, so it needs no other check.
        self._awaiting_open.append(PendingWrite(b"", self.log_end_offset, -1, self.log_end_offset, 0, ignore_result))

    def take_buffered(self) -> list[PendingWrite]:
        """Return the buffered appends, in order; none when the log has failed since."""
        held, self._awaiting_open = self._awaiting_open[1:], []
        self._is_buffering = False
        self._wake_idle_waiters()
        return held


def ignore_result(_error: KafkaError | None) -> None:
    """A callback for jobs that are no appends."""
