"""Writes batches to the active segment: assigns positions, rolls, writes, flushes.

Offsets were assigned before; from there on everything is one FIFO: the order of `enqueue_write` is the order of positions, of
writes in the directory's `DiskQueue`, and of `done`. A roll is a queued job like a write, so appends behind it wait in the
queue for the new files and do not block the event loop. A closed active segment is opened the same way at its first append.

Rules: methods run on the event loop, jobs in the queue (`LogJobs`).
Invariants: `log_end_offset` moves only when bytes are written, in order; every `done` is called exactly once; after a failed
write nothing behind the written prefix is reported as written, and the log accepts no more.
Source: Kafka LocalLog.append, LogSegment.append, UnifiedLog.roll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from protocol.errors import KafkaError
from protocol.records.any_format import read_any_header
from protocol.records.batch import BatchHeader
from runtime.filesystem import Buffer
from storage.disk_use import TimedJob
from storage.folder_files import parent_of
from storage.free_space import NoRoom
from storage.log.finished_segments import FinishedSegments
from storage.log.log_environment import LogEnvironment
from storage.log.write_back import WRITE_BACK_BYTES, WriteBack
from storage.log.write_order import Done, PendingWrite, WriterContext, WriterOrder
from storage.segments.segment import OpenedSegment, Segment, random_roll_jitter_ms, rolls_at
from storage.segments.segment_files import (
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    create_files,
    segment_path,
    sync_data,
    sync_file,
    sync_segment,
    write_index,
    write_page,
)
from storage.segments.segment_list import Segments
from storage.segments.segment_scan import open_and_mend_segment
from storage.segments.txn_index import AbortedTxn, TxnIndex

_UNKNOWN: tuple[int, bytes | None] = (-1, None)


class LogWriter(WriterOrder):
    """Writes one log."""

    __slots__ = (
        "_counted",
        "_counted_bytes",
        "_finished",
        "_folder_is_durable",
        "_queue",
        "_snapshot_before",
        "_unflushed_bytes",
        "_unsynced_index",
        "_write_back",
        "flushed_ms",
        "has_written",
    )

    def __init__(
        self,
        context: WriterContext,
        segments: Segments,
        environment: LogEnvironment,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        super().__init__(context, segments, environment, log_end_offset, recovery_point)
        self._queue = environment.queue
        self._write_back = WriteBack(segments, environment, self._jobs)
        self._unflushed_bytes = 0
        # The snapshot of the producers before the first record that waits until a segment is opened, and that may have to roll
        # it.
        self._snapshot_before: tuple[int, bytes | None] = _UNKNOWN
        # The segment with aborted transactions that no `flush.messages` has flushed yet.
        self._unsynced_index: Segment | None = None
        # The segment whose bytes up to `_counted_bytes` were subtracted from the directory's free bytes.
        self._counted: Segment | None = None
        self._counted_bytes = 0
        self._finished = FinishedSegments(self, segments, environment)
        # Whether the log directory is known to list this log's folder even after a loss of power.
        self._folder_is_durable = False
        self.has_written = False
        # Monotonic time of the last flush.
        self.flushed_ms = environment.clock.monotonic_ms()

    # --- placing ---

    def make_room(
        self, base_offset: int, last_offset: int, size_bytes: int, max_timestamp: int, now_ms: int, batches: int = 1
    ) -> None:
        """Roll when these batches must begin the next segment, at `base_offset`. Call it before `enqueue_write`, and before the
        producers' state moves past that offset."""
        segment = self._segments.active
        if self._awaiting_open:
            return
        if segment.file is None and not segment.is_awaited:
            # Closed, so its age is not known yet: `enqueue_write` decides after opening it, when the producers have moved on.
            self._snapshot_before = (self.log_end_offset, self._context.producer_snapshot(base_offset))
            return
        if segment.should_roll(self._context.config, size_bytes, max_timestamp, last_offset, now_ms, batches):
            self.roll(base_offset, now_ms)

    def enqueue_write(
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
        """Write batches that end before `next_offset` after all others, then call `done`.

        `headers`: those of several batches. `aborted`: the transactions that their abort markers ended, which are added to the
        transaction index before the log is written.
        """
        segment = self._segments.active
        if self._awaiting_open or (segment.file is None and not segment.is_awaited):
            self._enqueue_when_open(
                segment,
                PendingWrite(
                    records, next_offset, max_timestamp, offset_of_max_timestamp, now_ms, done, aborted, headers
                ),
            )
            return
        if aborted:
            self._index_aborted(segment, aborted)
        config = self._context.config
        position = segment.end_bytes
        if headers:
            has_new_entry = segment.note_appended(headers, max_timestamp, config.index_interval_bytes)
        else:
            has_new_entry = segment.note_append(
                len(records), next_offset - 1, max_timestamp, offset_of_max_timestamp, config.index_interval_bytes
            )
        self.has_written = True
        if next_offset - self.recovery_point < config.flush_messages:
            if self._in_flight or not self._is_written_now(segment, records, position, next_offset, done):
                self._in_flight.append((segment, segment.end_bytes, next_offset, done))
                self._queue.write(partial(self._jobs.write, segment, records, position), self._on_written)
        else:
            self._in_flight.append((segment, segment.end_bytes, next_offset, done))
            self._queue.write(partial(self._jobs.write, segment, records, position), _unreported)
            self._context.keep_epochs()
            has_index = segment is self._unsynced_index
            self._unsynced_index = None
            self._jobs.run(partial(self._sync_active, segment, has_index), partial(self._on_flushed_write, next_offset))
        if self.halted is not None:  # here, before a caller waits for it
            raise self.halted.again()
        if has_new_entry:
            self._count_placed(segment, position)
            self._write_back.spill_full_pages(segment)

    def _count_placed(self, segment: Segment, position: int) -> None:
        """Subtract the bytes placed since the last index entry from the free bytes; the newest batch begins at `position`."""
        environment = self._environment
        if segment is not self._counted:
            self._counted, self._counted_bytes = segment, position
        size_bytes, self._counted_bytes = segment.end_bytes - self._counted_bytes, segment.end_bytes
        if environment.space.on_placed(max(size_bytes, 0)):
            environment.on_less_room(segment.directory)

    def _index_aborted(self, segment: Segment, aborted: Sequence[AbortedTxn]) -> None:
        if segment.txn_index is None:
            segment.txn_index = TxnIndex(0, bytearray())
        self._unsynced_index = segment
        content, position = segment.txn_index.append(aborted)
        self._jobs.run_or_fail(
            partial(write_page, self._environment.filesystem, segment.path(TXN_INDEX_SUFFIX), content, position)
        )

    def _is_written_now(self, segment: Segment, records: Buffer, position: int, next_offset: int, done: Done) -> bool:
        """Write and report immediately while no write is pending: the usual case, without a queue entry, a job or a wait.

        Returns False when the write has to be queued. A failure is reported as usual.
        """
        file = segment.file
        if file is None or self._jobs.error is not None:
            return False
        try:
            if not self._queue.write_now(file, records, position):
                return False
        except OSError as error:
            self._in_flight.append((segment, segment.end_bytes, next_offset, done))
            self.on_refused(error)
            return True
        self._note_written(segment, segment.end_bytes, next_offset)
        done(None)
        if self._idle_waiters:
            self._wake_idle_waiters()
        return True

    def _on_written(self, error: OSError | None) -> None:
        if error is not None:
            self.on_refused(error)
            return
        if not self._in_flight:
            return  # the log has failed in between
        segment, end_bytes, next_offset, done = self._in_flight.pop(0)
        self._note_written(segment, end_bytes, next_offset)
        done(None)
        if self._idle_waiters:
            self._wake_idle_waiters()

    def _note_written(self, segment: Segment, end_bytes: int, next_offset: int) -> None:
        self._unflushed_bytes = unflushed_bytes = self._unflushed_bytes + end_bytes - segment.written_bytes
        segment.written_bytes = end_bytes
        self.log_end_offset = next_offset
        if unflushed_bytes >= WRITE_BACK_BYTES and not self._write_back.is_flushing:
            self._unflushed_bytes = 0
            self._write_back.flush(segment)

    def when_written(self, end_offset: int, done: Done) -> None:
        """Call `done` when everything below `end_offset` is written: immediately if it is, or if no write is pending, because
        that means that it has failed."""
        if end_offset <= self.log_end_offset or not (self._in_flight or self._awaiting_open):
            done(self.failure)
            return
        if self._in_flight and end_offset <= self._in_flight[-1][2]:  # also while appends are buffered
            segment, end_bytes, next_offset, first = self._in_flight[-1]
            self._in_flight[-1] = (segment, end_bytes, next_offset, _both(first, done))
        else:
            last = self._awaiting_open[-1]
            last.done = _both(last.done, done)

    def _sync_active(self, segment: Segment, has_index: bool) -> None:
        """A job: flush the segment. `has_index`: its transaction index has grown, which a recovery point at the segment's end
        needs on the disk."""
        assert segment.file is not None
        sync_data(segment.file)
        if has_index:
            sync_file(self._environment.filesystem, segment.path(TXN_INDEX_SUFFIX))
        if has_index or not segment.name_is_durable:  # the folder may not list the index yet, or the segment
            self._environment.filesystem.sync_directory(segment.directory)
        if not segment.name_is_durable:
            self._environment.filesystem.sync_directory(parent_of(segment.directory))
            segment.name_is_durable = True

    def _on_flushed_write(self, next_offset: int, error: OSError | None) -> None:
        """Report a write that `flush.messages` delays until it is on the disk."""
        if error is None and self._segments.at_or_before(self.recovery_point) is self._segments.active:
            self.recovery_point = max(self.recovery_point, next_offset)
        self._on_written(error)

    # --- opening and rolling ---

    def _enqueue_when_open(self, segment: Segment, placement: PendingWrite) -> None:
        self._awaiting_open.append(placement)
        if self._is_buffering or segment.is_awaited or segment.file is not None:
            return
        segment.is_awaited = True
        opened: list[OpenedSegment] = []
        filesystem, interval_bytes = self._environment.filesystem, self._context.config.index_interval_bytes
        self._jobs.run(
            lambda: opened.append(
                open_and_mend_segment(filesystem, segment.directory, segment.base_offset, interval_bytes)
            ),
            lambda error: self._on_opened(segment, opened, error),
        )

    def _on_opened(self, segment: Segment, opened: list[OpenedSegment], error: OSError | None) -> None:
        segment.is_awaited = False
        if error is not None:
            self._snapshot_before = _UNKNOWN
            self.on_refused(error)
            return
        found = opened[0]
        if segment.file is not None:
            self._environment.readers.run(found.file.close)  # a reader opened it first
        elif found.size_bytes != segment.written_bytes or found.problem is not None:
            self._environment.readers.run(found.file.close)
            self.fail(
                OSError(f"{segment} has {found.size_bytes} bytes, next offset {found.next_offset}: {found.problem}")
            )
            return
        else:
            segment.install(found)
            self._context.check_end(found)
        waiting, self._awaiting_open = self._awaiting_open, []
        self._enqueue_all(waiting)

    def _enqueue_all(self, waiting: Iterable[PendingWrite]) -> None:
        """Enqueue the batches that had to wait when they came."""
        # Writes that were pending when buffering began may still be.
        end_offset = self._in_flight[-1][2] if self._in_flight else self.log_end_offset
        for each in waiting:
            error = self.failure or self.halted
            if error is not None:
                each.done(error)
                continue
            first = each.headers[0] if each.headers else read_any_header(each.records, 0)
            self.make_room(
                rolls_at(end_offset, first.base_offset, each.next_offset - 1), each.next_offset - 1, len(each.records),
                each.max_timestamp, each.now_ms, len(each.headers) or 1,
            )  # fmt: skip
            with contextlib.suppress(NoRoom):  # which `done` was called with
                self.enqueue_write(
                    each.records, each.next_offset, each.max_timestamp, each.offset_of_max_timestamp, each.now_ms,
                    each.done, each.aborted, each.headers,
                )  # fmt: skip
            end_offset = each.next_offset
        self._snapshot_before = _UNKNOWN

    def release(self) -> None:
        """Write what was buffered: this log stays the partition's."""
        self._enqueue_all(self.take_buffered())

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment at `base_offset`. A queued job creates its files."""
        old = self._segments.active
        config, filesystem = self._context.config, self._environment.filesystem
        old.note_max_timestamp()
        write_indexes = self._index_job(old)
        known_offset, snapshot = self._snapshot_before
        if snapshot is None or known_offset != base_offset:
            snapshot = self._context.producer_snapshot(base_offset)
        self._context.keep_epochs()
        new = Segment(
            self._context.directory,
            base_offset,
            size_bytes=0,
            created_ms=now_ms,
            roll_jitter_ms=random_roll_jitter_ms(config, self._environment.randomness),
        )
        new.begin()
        new.is_awaited = True

        def job() -> None:
            write_indexes()
            if snapshot is not None:
                filesystem.write_bytes(new.path(SNAPSHOT_SUFFIX), snapshot)
            new.file = create_files(filesystem, new.directory, base_offset)

        self._jobs.run(job, partial(self._on_rolled, old, new))
        self._segments.append(new)
        return new

    def _on_rolled(self, old: Segment, new: Segment, error: OSError | None) -> None:
        new.is_awaited = False
        if error is not None:
            self.on_refused(error)
            return
        if old.is_gone:
            return
        for index in (old.offset_index, old.time_index):
            index.written(index.memory_entries)
        self._environment.open_segments.touch(old)
        self._finished.flush(old, new.base_offset)

    def end_at(self, offset: int) -> None:
        """End the log at `offset`, see `WriterOrder`. Earlier flushes of the shortened segment say nothing about its next
        content."""
        super().end_at(offset)
        self._finished.drop_truncated(lambda end_offset: end_offset > offset)

    def begin_again_at(self, offset: int) -> None:
        """Begin the next segment at `offset`, which may be behind all former ones; no segment is left."""
        self._finished.drop_truncated(lambda _: True)
        self.end_at(offset)

    # --- flushing ---

    async def flush(self, end_offset: int) -> None:
        """Flush everything placed so far, which ends at `end_offset`."""
        if end_offset <= self.recovery_point or self._refuses_writes:
            return
        if self._awaiting_open:  # these are not queued yet, so a job queued now would overtake them
            await self._written(self._awaiting_open[-1].next_offset)
            end_offset = min(end_offset, self.log_end_offset)  # the log may have been truncated meanwhile
        if self._segments.active.is_gone:
            return  # closed, and its folder may be set aside
        segments = self._segments.starting_from(self.recovery_point)
        self._context.keep_epochs()

        truncations = self._truncations
        parent = None if self._folder_is_durable else parent_of(self._context.directory)

        was_begun = False

        def job() -> None:
            nonlocal was_begun
            was_begun = True
            if parent is not None:
                self._environment.filesystem.sync_directory(parent)
            for segment in segments:
                sync_segment(self._environment.filesystem, segment.directory, segment.base_offset, segment.file)

        def done(error: OSError | None) -> None:
            self._environment.open_segments.unpin(segments)
            if error is None:
                self._environment.disk_use.flushes.add(timed.took_ns)
            elif was_begun:  # otherwise a write before it was refused, and has reported that
                self.fail(error)  # whatever an fsync says, what it was to keep may be lost

        self._environment.open_segments.pin(segments)
        timed = TimedJob(job, self._environment.clock)
        await self._run_job(timed, done)
        if not self._refuses_writes and truncations == self._truncations:
            self._folder_is_durable = True
            self.recovery_point = max(self.recovery_point, end_offset)

    async def finish(self, snapshot: bytes | None) -> None:
        """Write what a clean start needs: whole and trimmed indexes, a snapshot at the end, all flushed."""
        if self._refuses_writes or (not self.has_written and self.recovery_point >= self.log_end_offset):
            return
        active, end_offset = self._segments.active, self.log_end_offset
        if active.file is not None:
            active.note_max_timestamp()
            self._jobs.run_or_fail(self._index_job(active))
        if snapshot is not None:
            await self.write_snapshot(snapshot, end_offset)
        self.recovery_point = min(self.recovery_point, max(end_offset - 1, 0))  # the indexes are to be flushed as well
        await self.flush(end_offset)

    async def write_indexes(self) -> bool:
        """Write what the active segment's indexes have in memory. Returns whether the segment may be closed: nothing was
        appended meanwhile, and nothing uses it."""
        active = self._segments.active
        end_bytes = active.end_bytes
        if active.file is None or self._is_buffering or self._is_busy or self._refuses_writes:
            return False
        active.note_max_timestamp()
        await self._run_job(self._index_job(active), self._jobs.refuse_on)
        is_unchanged = active is self._segments.active and active.file is not None and active.end_bytes == end_bytes
        return is_unchanged and not (active.pins or self._is_buffering or self._is_busy or self._refuses_writes)

    def _index_job(self, segment: Segment) -> Callable[[], None]:
        """Return a job that writes what the segment's indexes have in memory now."""
        filesystem = self._environment.filesystem
        tails = [
            (segment.path(index.suffix), *index.unwritten()) for index in (segment.offset_index, segment.time_index)
        ]

        def job() -> None:
            for path, content, position in tails:
                write_index(filesystem, path, content, position)

        return job

    async def write_snapshot(self, content: bytes, offset: int) -> None:
        """Write and flush a snapshot of the producers before `offset`."""
        if self._is_buffering:
            return
        filesystem, directory = self._environment.filesystem, self._context.directory
        path = segment_path(directory, offset, SNAPSHOT_SUFFIX)

        def job() -> None:
            filesystem.write_bytes(path, content)
            sync_file(filesystem, path)
            filesystem.sync_directory(directory)

        await self._run_job(job, self._jobs.refuse_on)

    async def await_queued_jobs(self) -> None:
        """Return when all jobs that are queued now are reported."""
        await self._run_job(_nothing, self._jobs.refuse_on)

    async def _run_job(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Return when `job` is reported. Other jobs may be queued behind it: under load there always are some, so this waits
        only for its own."""
        reported = asyncio.get_running_loop().create_future()

        def finished(error: OSError | None) -> None:
            try:
                done(error)
            finally:
                _wake(reported)

        self._jobs.run(job, finished)
        await reported

    async def _written(self, end_offset: int) -> None:
        """Return when everything below `end_offset` is written, or has failed."""
        reported = asyncio.get_running_loop().create_future()
        self.when_written(end_offset, lambda _error: _wake(reported))
        await reported

    def write_file(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file of the log's folder, in order with the log's writes. Unless `durable`, a loss of power may lose
        or tear it."""
        if self._is_buffering:
            return  # the folder is being removed
        filesystem = self._environment.filesystem

        def replace() -> None:
            filesystem.write_bytes(path + ".tmp", content)
            filesystem.rename(path + ".tmp", path)

        self._jobs.run_or_fail(partial(filesystem.replace, path, content) if durable else replace)


def _both(first: Done, second: Done) -> Done:
    def done(error: KafkaError | None) -> None:
        first(error)
        second(error)

    return done


def _nothing() -> None:
    """A job that only marks a position in the queue."""


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _unreported(error: OSError | None) -> None:
    """Ignore the outcome of a write that the job behind it reports."""
