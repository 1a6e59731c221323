"""Writes batches to the active segment: assigns positions, rolls, writes, flushes.

Offsets were assigned before; from there on everything is one FIFO: the order of `enqueue_write` is the order of positions, of
writes in the directory's `DiskQueue`, and of `done`. A roll is a queued job like a write, so appends behind it wait in the
queue for the new files and do not block the event loop. A closed active segment is opened the same way at its first append.

Its parts: `pending` (what is not written yet), `refusals` (why nothing is taken), `jobs`, `files` (indexes, snapshots),
`durability` (flushes, the recovery point).

Rules: methods run on the event loop, jobs in the queue (`LogJobs`).
Invariants: the log end offset moves only when bytes are written, in order; every `done` is called exactly once; after a failed
write nothing behind the written prefix is reported as written, and the log accepts no more.
Source: Kafka LocalLog.append, LogSegment.append, UnifiedLog.roll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial

from config.topic import LogConfig
from protocol.records.any_format import read_any_header
from protocol.records.batch import BatchHeader
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import Buffer
from storage.free_space import NoRoom
from storage.log.end_check import check_end
from storage.log.leader_epoch_file import LeaderEpochFile
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.producers.log_producers import LogProducers
from storage.log.writing.durability import LogDurability
from storage.log.writing.log_files import LogFiles
from storage.log.writing.log_jobs import LogJobs
from storage.log.writing.pending_writes import Done, PendingWrite, PendingWrites
from storage.log.writing.write_back import WRITE_BACK_BYTES, WriteBack
from storage.log.writing.write_refusals import WriteRefusals
from storage.segments.segment import OpenedSegment, Segment, random_roll_jitter_ms, rolls_at
from storage.segments.segment_files import SNAPSHOT_SUFFIX, create_files
from storage.segments.segment_list import Segments
from storage.segments.segment_scan import open_and_mend_segment
from storage.segments.txn_index import AbortedTxn

_UNKNOWN: tuple[int, bytes | None] = (-1, None)


class LogWriter:
    """Writes one log. `config`: the topic's settings, which the log renews."""

    __slots__ = (
        "_counted",
        "_counted_bytes",
        "_directory",
        "_environment",
        "_queue",
        "_segments",
        "_snapshot_before",
        "_unflushed_bytes",
        "_write_back",
        "config",
        "durability",
        "epochs",
        "files",
        "has_written",
        "jobs",
        "key",
        "offsets",
        "pending",
        "producers",
        "refusals",
    )

    def __init__(
        self,
        key: TopicPartition,
        directory: str,
        config: LogConfig,
        environment: LogEnvironment,
        offsets: LogOffsets,
        segments: Segments,
        epochs: LeaderEpochFile,
        producers: LogProducers,
    ) -> None:
        self.key = key
        self._directory = directory
        self._environment = environment
        self.offsets = offsets
        self._segments = segments
        self.epochs = epochs
        self.producers = producers
        self._queue = environment.queue
        self.config = config
        self.has_written = False
        self.pending = PendingWrites()
        self.refusals = WriteRefusals(key, directory, offsets, segments, environment, self.pending)
        self.jobs = LogJobs(environment.queue, self.pending, self.refusals)
        self.files = LogFiles(environment.filesystem, self.jobs, self.pending)
        self.durability = LogDurability(directory, offsets, segments, epochs, environment, self.jobs, self.refusals)
        self._write_back = WriteBack(segments, environment, self.pending, self.refusals)
        self._unflushed_bytes = 0
        # The snapshot of the producers before the first record that waits until a segment is opened, and that may have to roll
        # it.
        self._snapshot_before: tuple[int, bytes | None] = _UNKNOWN
        # The segment whose bytes up to `_counted_bytes` were subtracted from the directory's free bytes.
        self._counted: Segment | None = None
        self._counted_bytes = 0

    # --- placing ---

    def make_room(
        self, base_offset: int, last_offset: int, size_bytes: int, max_timestamp: int, now_ms: int, batches: int = 1
    ) -> None:
        """Roll when these batches must begin the next segment, at `base_offset`. Call it before `enqueue_write`, and before the
        producers' state moves past that offset."""
        segment = self._segments.active
        if self.pending.awaiting_open:
            return
        if segment.file is None and not segment.is_awaited:
            # Closed, so its age is not known yet: `enqueue_write` decides after opening it, when the producers have moved on.
            self._snapshot_before = (self.offsets.log_end_offset, self._snapshot_at(base_offset))
            return
        if segment.should_roll(self.config, size_bytes, max_timestamp, last_offset, now_ms, batches):
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
        segment, pending = self._segments.active, self.pending
        if pending.awaiting_open or (segment.file is None and not segment.is_awaited):
            self._enqueue_when_open(
                segment,
                PendingWrite(
                    records, next_offset, max_timestamp, offset_of_max_timestamp, now_ms, done, aborted, headers
                ),
            )
            return
        if aborted:
            self.durability.note_index_grown(segment)
            self.files.index_aborted(segment, aborted)
        config = self.config
        position = segment.end_bytes
        if headers:
            has_new_entry = segment.note_appended(headers, max_timestamp, config.index_interval_bytes)
        else:
            has_new_entry = segment.note_append(
                len(records), next_offset - 1, max_timestamp, offset_of_max_timestamp, config.index_interval_bytes
            )
        self.has_written = True
        if next_offset - self.offsets.recovery_point < config.flush_messages:
            if pending.in_flight or not self._is_written_now(segment, records, position, next_offset, done):
                pending.in_flight.append((segment, segment.end_bytes, next_offset, done))
                self._queue.write(partial(self.jobs.write, segment, records, position), self._on_written)
        else:
            pending.in_flight.append((segment, segment.end_bytes, next_offset, done))
            self._queue.write(partial(self.jobs.write, segment, records, position), _unreported)
            self.durability.sync_append(segment, next_offset, self._on_written)
        if self.refusals.halted is not None:  # here, before a caller waits for it
            raise self.refusals.halted.again()
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

    def _is_written_now(self, segment: Segment, records: Buffer, position: int, next_offset: int, done: Done) -> bool:
        """Write and report immediately while no write is pending: the usual case, without a queue entry, a job or a wait.

        Returns False when the write has to be queued. A failure is reported as usual.
        """
        file = segment.file
        if file is None or self.refusals.io_error is not None:
            return False
        try:
            if not self._queue.write_now(file, records, position):
                return False
        except OSError as error:
            self.pending.in_flight.append((segment, segment.end_bytes, next_offset, done))
            self.refusals.on_refused(error)
            return True
        self._note_written(segment, segment.end_bytes, next_offset)
        done(None)
        if self.pending.idle_waiters:
            self.pending.wake_if_idle()
        return True

    def _on_written(self, error: OSError | None) -> None:
        if error is not None:
            self.refusals.on_refused(error)
            return
        pending = self.pending
        if not pending.in_flight:
            return  # the log has failed in between
        segment, end_bytes, next_offset, done = pending.in_flight.pop(0)
        self._note_written(segment, end_bytes, next_offset)
        done(None)
        if pending.idle_waiters:
            pending.wake_if_idle()

    def _note_written(self, segment: Segment, end_bytes: int, next_offset: int) -> None:
        self._unflushed_bytes = unflushed_bytes = self._unflushed_bytes + end_bytes - segment.written_bytes
        segment.written_bytes = end_bytes
        self.offsets.log_end_offset = next_offset
        if unflushed_bytes >= WRITE_BACK_BYTES and not self._write_back.is_flushing:
            self._unflushed_bytes = 0
            self._write_back.flush(segment)

    def when_written(self, end_offset: int, done: Done) -> None:
        """Call `done` when everything below `end_offset` is written: immediately if it is, or if no write is pending, because
        that means that it has failed."""
        if end_offset <= self.offsets.log_end_offset or not self.pending.report_with(end_offset, done):
            done(self.refusals.failure)

    # --- opening and rolling ---

    def _enqueue_when_open(self, segment: Segment, placement: PendingWrite) -> None:
        self.pending.awaiting_open.append(placement)
        if self.pending.is_buffering or segment.is_awaited or segment.file is not None:
            return
        segment.is_awaited = True
        opened: list[OpenedSegment] = []
        filesystem, interval_bytes = self._environment.filesystem, self.config.index_interval_bytes
        self.jobs.run(
            lambda: opened.append(
                open_and_mend_segment(filesystem, segment.directory, segment.base_offset, interval_bytes)
            ),
            lambda error: self._on_opened(segment, opened, error),
        )

    def _on_opened(self, segment: Segment, opened: list[OpenedSegment], error: OSError | None) -> None:
        segment.is_awaited = False
        if error is not None:
            self._snapshot_before = _UNKNOWN
            self.refusals.on_refused(error)
            return
        found = opened[0]
        if segment.file is not None:
            self._environment.readers.run(found.file.close)  # a reader opened it first
        elif found.size_bytes != segment.written_bytes or found.problem is not None:
            self._environment.readers.run(found.file.close)
            self.refusals.fail(
                OSError(f"{segment} has {found.size_bytes} bytes, next offset {found.next_offset}: {found.problem}")
            )
            return
        else:
            segment.install(found)
            check_end(self.offsets, self._directory, found)
        self._enqueue_all(self.pending.take_awaiting())

    def _enqueue_all(self, waiting: Iterable[PendingWrite]) -> None:
        """Enqueue the batches that had to wait when they came."""
        # Writes that were pending when buffering began may still be.
        in_flight = self.pending.in_flight
        end_offset = in_flight[-1][2] if in_flight else self.offsets.log_end_offset
        for each in waiting:
            error = self.refusals.error
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

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment at `base_offset`. A queued job creates its files."""
        old = self._segments.active
        filesystem = self._environment.filesystem
        old.note_max_timestamp()
        write_indexes = self.files.index_job(old)
        known_offset, snapshot = self._snapshot_before
        if snapshot is None or known_offset != base_offset:
            snapshot = self._snapshot_at(base_offset)
        self.epochs.keep()
        new = Segment(
            self._directory,
            base_offset,
            size_bytes=0,
            created_ms=now_ms,
            roll_jitter_ms=random_roll_jitter_ms(self.config, self._environment.randomness),
        )
        new.begin()
        new.is_awaited = True

        def job() -> None:
            write_indexes()
            if snapshot is not None:
                filesystem.write_bytes(new.path(SNAPSHOT_SUFFIX), snapshot)
            new.file = create_files(filesystem, new.directory, base_offset)

        self.jobs.run(job, partial(self._on_rolled, old, new))
        self._segments.append(new)
        return new

    def _on_rolled(self, old: Segment, new: Segment, error: OSError | None) -> None:
        new.is_awaited = False
        if error is not None:
            self.refusals.on_refused(error)
            return
        if old.is_removed:
            return
        for index in (old.offset_index, old.time_index):
            index.written(index.memory_entries)
        self._environment.open_segments.touch(old)
        self.durability.flush_finished(old, new.base_offset)

    def _snapshot_at(self, offset: int) -> bytes | None:
        """Return a snapshot of all producers before `offset`; None when their state there is not known any more."""
        return self.producers.snapshot() if self.offsets.next_offset <= offset else None

    def end_at(self, offset: int) -> None:
        """Note that the log was truncated to `offset`. No write may be pending."""
        assert not self.pending.in_flight and not self.pending.awaiting_open
        self.offsets.end_at(offset)
        self.durability.drop_truncated(offset)

    def begin_again_at(self, offset: int) -> None:
        """Begin the next segment at `offset`, which may be behind all former ones; no segment is left."""
        assert not self.pending.in_flight and not self.pending.awaiting_open
        self.offsets.begin_again_at(offset)
        self.durability.forget_finished()

    # --- replacement by another log ---

    @property
    def can_buffer_appends(self) -> bool:
        return self.refusals.error is None and not self.pending.awaiting_open

    def buffer_appends(self) -> None:
        """Keep new appends in memory, until `release`, or `take_buffered` of `pending`."""
        assert self.can_buffer_appends
        self.pending.begin_buffering(self.offsets.log_end_offset)

    def release(self) -> None:
        """Write what was buffered: this log stays the partition's."""
        self._enqueue_all(self.pending.take_buffered())

    # --- flushing and closing ---

    async def flush(self, end_offset: int) -> None:
        """Flush everything placed so far, which ends at `end_offset`."""
        if end_offset <= self.offsets.recovery_point or not self.refusals.may_use_disk:
            return
        awaiting_open = self.pending.awaiting_open
        if awaiting_open:  # these are not queued yet, so a job queued now would overtake them
            await self._written(awaiting_open[-1].next_offset)
            end_offset = min(end_offset, self.offsets.log_end_offset)  # the log may have been truncated meanwhile
        await self.durability.flush(end_offset)

    async def _written(self, end_offset: int) -> None:
        """Return when everything below `end_offset` is written, or has failed."""
        reported = asyncio.get_running_loop().create_future()
        self.when_written(end_offset, lambda _error: _wake(reported))
        await reported

    async def finish(self) -> None:
        """Write what a clean start needs: whole and trimmed indexes, a snapshot at the end, all flushed."""
        offsets = self.offsets
        end_offset = offsets.log_end_offset
        if not self.refusals.may_use_disk or (not self.has_written and offsets.recovery_point >= end_offset):
            return
        snapshot = self._snapshot_at(end_offset)
        active = self._segments.active
        if active.file is not None:
            active.note_max_timestamp()
            self.jobs.run_or_fail(self.files.index_job(active))
        if snapshot is not None:
            await self.files.write_snapshot(self._directory, snapshot, end_offset)
        # The indexes are to be flushed as well.
        offsets.recovery_point = min(offsets.recovery_point, max(end_offset - 1, 0))
        await self.flush(end_offset)

    async def write_indexes(self) -> bool:
        """Write what the active segment's indexes have in memory. Returns whether the segment may be closed: nothing was
        appended meanwhile, and nothing uses it."""
        active = self._segments.active
        end_bytes = active.end_bytes
        if active.file is None or self._is_used:
            return False
        active.note_max_timestamp()
        await self.jobs.run_and_wait(self.files.index_job(active), self.jobs.refuse_on)
        is_unchanged = active is self._segments.active and active.file is not None and active.end_bytes == end_bytes
        return is_unchanged and not (active.pins or self._is_used)

    @property
    def _is_used(self) -> bool:
        return self.pending.is_busy or not self.refusals.may_use_disk


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _unreported(error: OSError | None) -> None:
    """Ignore the outcome of a write that the job behind it reports."""
