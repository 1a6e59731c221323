"""The order of a log's writes, and its end: what is on its way to the disk, and what becomes of it when the disk refuses.

    fails     an IO error: for good, the log directory goes offline
    halts     there is no room: until what the refused write has left behind is cut off (`LogEnds.resume`)
    is held   another log is about to take its place: what comes is kept in memory, and handed on

In the first two the log ends at its written prefix, and whatever was on its way behind it is told so.

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
    """The log, as its writer sees it."""

    config: LogConfig

    @property
    def directory(self) -> str: ...

    def producer_snapshot(self, offset: int) -> bytes | None:
        """The state of all producers before `offset`; None when it is not known any more."""

    def check_end(self, opened: OpenedSegment) -> None:
        """The last segment was opened, and nothing is appended to it yet: the first time, its file tells whether the log ends
        where it is thought to."""

    def keep_epochs(self) -> None:
        """Write the leader epochs where they survive: the recovery point is about to move."""

    def on_write_failed(self, error: KafkaError, cause: OSError) -> None: ...

    def on_taken_offline(self) -> None:
        """It has failed, of which its owner knows."""

    def on_halted(self, cause: OSError) -> None: ...


class PendingWrite:
    """Assigned batches on their way to the disk."""

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
    """See the module. `failure` is set once and for all, `halted` while there was no room; `refusal` by either, or by
    the owner of a directory that is almost full."""

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
        # Who waits for the end of all of these.
        self._idle_waiters: list[asyncio.Future[None]] = []
        # How often the log was cut: what was flushed before a cut says nothing about what is there now.
        self._truncations = 0
        self.lowest_truncation_offset: int | None = None
        self.failure: KafkaError | None = None
        self.halted: NoRoom | None = None
        self.refusal: KafkaError | None = None
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        # It has fallen, or the log's first dirty offset, and the checkpointed one not yet.
        self.needs_checkpoint = False

    # --- order ---

    @property
    def truncations(self) -> int:
        """How often the log was cut."""
        return self._truncations

    @property
    def _is_busy(self) -> bool:
        return bool(self._in_flight or self._jobs.count or (self._awaiting_open and not self._is_buffering))

    async def await_idle(self) -> None:
        """Return when nothing of this log is on its way to the disk. What is held is not on its way."""
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
        """The segments before `offset` are gone."""
        self.recovery_point = max(self.recovery_point, offset)

    def end_at(self, offset: int) -> None:
        """The log was cut: it ends at `offset`. Nothing may be on its way."""
        assert not self._in_flight and not self._awaiting_open
        self._truncations += 1
        self.log_end_offset = offset
        if offset < self.recovery_point:
            self.recovery_point, self.needs_checkpoint = offset, True

    # --- refusals of the disk ---

    def fail(self, cause: OSError, *, is_known: bool = False) -> None:
        """The disk refused: everything on its way fails, and the log ends where its written prefix ends. `is_known`: to the
        owner of the log directory, who is not told again."""
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
        """The host hears of it before those whose writes were on their way."""
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
        """See `hold`."""
        return self._is_buffering

    @property
    def _refuses_writes(self) -> bool:
        """No job of this log touches the disk, and what it takes stays in memory."""
        return self._is_buffering or self.failure is not None or self.halted is not None

    def accept_jobs(self) -> None:
        """The log has halted and is settled: to cut it takes jobs of its own."""
        assert self.halted is not None
        self._jobs.resume()

    @property
    def is_sound(self) -> bool:
        """No job was refused since `accept_jobs`."""
        return self.failure is None and self._jobs.error is None

    def resume(self, refusal: KafkaError | None) -> None:
        """A halted log is sound again. `refusal`: what its directory still has to say."""
        self.halted, self.refusal = None, refusal

    # --- giving way to another log ---

    @property
    def can_buffer_appends(self) -> bool:
        return self.failure is None and self.halted is None and not self._awaiting_open

    def buffer_appends(self) -> None:
        """Keep what is placed from now on, in memory, until `take_buffered`, or `release` of the writer."""
        assert self.can_buffer_appends
        self._is_buffering = True
        # So that `place`, which looks at this list anyway, need not look at anything else.
        self._awaiting_open.append(PendingWrite(b"", self.log_end_offset, -1, self.log_end_offset, 0, ignore_result))

    def take_buffered(self) -> list[PendingWrite]:
        """What was kept, in order; nothing when the log has failed since."""
        held, self._awaiting_open = self._awaiting_open[1:], []
        self._is_buffering = False
        self._wake_idle_waiters()
        return held


def ignore_result(_error: KafkaError | None) -> None:
    """For what is no append."""
