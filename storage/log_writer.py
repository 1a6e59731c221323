"""Putting batches into the active segment: placing, rolling, writing, and what happens when the disk refuses.

Offsets were assigned before; from there on everything is one FIFO: the order of `place` is the order of positions, of
writes in the directory's `DiskQueue`, and of `done`. A roll is a queued job like a write, so appends behind it wait for
the new files without anybody on the event loop waiting. A closed active segment is opened the same way at its first append.

Rules: methods run on the event loop, jobs in the queue (`LogJobs`).
Invariants: `log_end_offset` moves only when bytes are written, in order; every `done` is called exactly once; after a
failed write nothing behind the written prefix is reported, and the log takes no more.
Source: Kafka LocalLog.append, LogSegment.append, UnifiedLog.roll.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from runtime.filesystem import Buffer
from storage.log_environment import LogEnvironment
from storage.log_jobs import LogJobs
from storage.log_reader import Segments
from storage.recovery import open_segment
from storage.segment import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    OpenedSegment,
    Segment,
    create_files,
    random_roll_jitter_ms,
    segment_path,
    sync_file,
    sync_segment,
    write_index,
)
from storage.write_back import WRITE_BACK_BYTES, WriteBack

Done = Callable[[KafkaError | None], None]


class WriterHost(Protocol):
    """The log, as its writer sees it."""

    config: LogConfig
    directory: str

    def producer_snapshot(self, offset: int) -> bytes | None:
        """The state of all producers before `offset`; None when it is not known any more."""

    def on_write_failed(self, error: KafkaError, cause: OSError) -> None: ...


class _Placement:
    """Assigned batches on their way to the disk."""

    __slots__ = ("done", "max_timestamp", "next_offset", "now_ms", "offset_of_max_timestamp", "records")

    def __init__(
        self,
        records: Buffer,
        next_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        now_ms: int,
        done: Done,
    ) -> None:
        self.records = records
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.now_ms = now_ms
        self.done = done


class LogWriter:
    """Writes one log. `failure` is set once and for all by the first error."""

    __slots__ = (
        "_awaiting_open",
        "_cuts",
        "_environment",
        "_folder_is_durable",
        "_host",
        "_idle_waiters",
        "_in_flight",
        "_jobs",
        "_queue",
        "_segments",
        "_unflushed_bytes",
        "_write_back",
        "failure",
        "has_written",
        "log_end_offset",
        "recovery_point",
    )

    def __init__(
        self,
        host: WriterHost,
        segments: Segments,
        environment: LogEnvironment,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self._host = host
        self._segments = segments
        self._environment = environment
        self._queue = environment.queue
        # (segment, end of the bytes in it, next offset, done) of each write that was queued and not reported yet.
        self._in_flight: deque[tuple[Segment, int, int, Done]] = deque()
        self._awaiting_open: deque[_Placement] = deque()
        self._jobs = LogJobs(environment.queue, self)
        self._write_back = WriteBack(segments, environment, self._jobs)
        # Who waits for the end of all of these.
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._unflushed_bytes = 0
        # How often the log was cut: what was flushed before a cut says nothing about what is there now.
        self._cuts = 0
        # Whether the log directory is known to list this log's folder even after a loss of power.
        self._folder_is_durable = False
        self.failure: KafkaError | None = None
        self.has_written = False
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point

    # --- placing ---

    def make_room(self, base_offset: int, last_offset: int, size_bytes: int, max_timestamp: int, now_ms: int) -> None:
        """Roll when batches like these must begin the next segment. Comes before `place`, and before the producers'
        state moves past `base_offset`."""
        segment = self._segments.active
        if segment.file is None and not segment.is_awaited:
            return  # closed, so its age is not known yet: `place` will wait, and then look
        if self._awaiting_open:
            return
        if segment.should_roll(self._host.config, size_bytes, max_timestamp, last_offset, now_ms):
            self.roll(base_offset, now_ms)

    def place(
        self,
        records: Buffer,
        next_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        now_ms: int,
        done: Done,
    ) -> None:
        """Write batches that end before `next_offset` behind all others; `done` when that is through."""
        segment = self._segments.active
        if self._awaiting_open or (segment.file is None and not segment.is_awaited):
            self._place_when_open(
                segment, _Placement(records, next_offset, max_timestamp, offset_of_max_timestamp, now_ms, done)
            )
            return
        config = self._host.config
        position = segment.end_bytes
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
            self._jobs.run(partial(self._sync_active, segment), partial(self._on_flushed_write, next_offset))
        if has_new_entry:
            self._write_back.spill_full_pages(segment)

    def _is_written_now(self, segment: Segment, records: Buffer, position: int, next_offset: int, done: Done) -> bool:
        """Write and report at once, while nothing is on its way: the usual case, without an entry, a job or a wait.

        False when it has to be queued. A failure is reported here as any other.
        """
        file = segment.file
        if file is None or self._jobs.error is not None:
            return False
        try:
            if not self._queue.write_now(file, records, position):
                return False
        except OSError as error:
            self._in_flight.append((segment, segment.end_bytes, next_offset, done))
            self.fail(error)
            return True
        self._note_written(segment, segment.end_bytes, next_offset)
        done(None)
        if self._idle_waiters:
            self._wake_idle_waiters()
        return True

    def _on_written(self, error: OSError | None) -> None:
        if error is not None:
            self.fail(error)
            return
        if not self._in_flight:
            return  # the log has failed in between
        segment, end_bytes, next_offset, done = self._in_flight.popleft()
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
        """Call `done` when everything below `end_offset`, which was placed before, is written: at once if it is."""
        if end_offset <= self.log_end_offset:
            done(self.failure)
            return
        if self._awaiting_open:
            last = self._awaiting_open[-1]
            last.done = _both(last.done, done)
        else:
            segment, end_bytes, next_offset, first = self._in_flight[-1]
            self._in_flight[-1] = (segment, end_bytes, next_offset, _both(first, done))

    def _sync_active(self, segment: Segment) -> None:
        """A job."""
        assert segment.file is not None
        segment.file.sync()
        if not segment.name_is_durable:
            self._environment.filesystem.sync_directory(segment.directory)
            self._environment.filesystem.sync_directory(parent_of(segment.directory))
            segment.name_is_durable = True

    def _on_flushed_write(self, next_offset: int, error: OSError | None) -> None:
        """A write that `flush.messages` holds back until it is on the disk."""
        if error is None and self._segments.at_or_before(self.recovery_point) is self._segments.active:
            self.recovery_point = max(self.recovery_point, next_offset)
        self._on_written(error)

    # --- opening and rolling ---

    def _place_when_open(self, segment: Segment, placement: _Placement) -> None:
        self._awaiting_open.append(placement)
        if segment.is_awaited or segment.file is not None:
            return
        segment.is_awaited = True
        opened: list[OpenedSegment] = []
        filesystem, interval_bytes = self._environment.filesystem, self._host.config.index_interval_bytes
        self._jobs.run(
            lambda: opened.append(open_segment(filesystem, segment.directory, segment.base_offset, interval_bytes)),
            lambda error: self._on_opened(segment, opened, error),
        )

    def _on_opened(self, segment: Segment, opened: list[OpenedSegment], error: OSError | None) -> None:
        segment.is_awaited = False
        if error is not None:
            self.fail(error)
            return
        found = opened[0]
        if segment.file is not None:
            self._environment.readers.run(found.file.close)  # a reader was faster
        elif found.size_bytes != segment.written_bytes or found.problem is not None:
            self._environment.readers.run(found.file.close)
            self.fail(
                OSError(f"{segment} has {found.size_bytes} bytes, next offset {found.next_offset}: {found.problem}")
            )
            return
        else:
            segment.install(found)
        waiting, self._awaiting_open = self._awaiting_open, deque()
        base_offset = self.log_end_offset
        for each in waiting:
            if self.failure is not None:
                each.done(self.failure)
                continue
            self.make_room(base_offset, each.next_offset - 1, len(each.records), each.max_timestamp, each.now_ms)
            self.place(
                each.records, each.next_offset, each.max_timestamp, each.offset_of_max_timestamp, each.now_ms, each.done
            )
            base_offset = each.next_offset

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment at `base_offset`. Files are made by a queued job."""
        old = self._segments.active
        config, filesystem = self._host.config, self._environment.filesystem
        old.note_max_timestamp()
        tails = [(old.path(index.suffix), *index.unwritten()) for index in (old.offset_index, old.time_index)]
        snapshot = self._host.producer_snapshot(base_offset)
        new = Segment(
            self._host.directory,
            base_offset,
            size_bytes=0,
            created_ms=now_ms,
            roll_jitter_ms=random_roll_jitter_ms(config, self._environment.randomness),
        )
        new.is_awaited = True
        new.knows_timestamps = True

        def job() -> None:
            for path, content, position in tails:
                write_index(filesystem, path, content, position)
            if snapshot is not None:
                filesystem.write_bytes(new.path(SNAPSHOT_SUFFIX), snapshot)
            new.file = create_files(filesystem, new.directory, base_offset)

        self._jobs.run(job, partial(self._on_rolled, old, new))
        self._segments.append(new)
        return new

    def _on_rolled(self, old: Segment, new: Segment, error: OSError | None) -> None:
        new.is_awaited = False
        if error is not None:
            self.fail(error)
            return
        for index in (old.offset_index, old.time_index):
            index.written(index.memory_entries)
        self._environment.open_segments.touch(old)
        if not self._environment.tasks.is_closed:
            self._environment.tasks.spawn(
                self._flush_rolled(old, new.base_offset), name=f"flush {old.path(LOG_SUFFIX)}"
            )

    async def _flush_rolled(self, old: Segment, end_offset: int) -> None:
        """Put a finished segment on the disk, beside the appends to the next one, and move the recovery point."""
        if old.is_gone or self.failure is not None:
            return
        cuts = self._cuts
        sync = partial(sync_segment, self._environment.filesystem, old.directory, old.base_offset, old.file, end_offset)
        try:
            await self._environment.open_segments.run_pinned(old, sync)
        except OSError as error:
            if not old.is_gone:  # else its files may be set aside by now
                self.fail(error)
            return
        if self.recovery_point >= old.base_offset and cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, end_offset)

    # --- flushing ---

    async def flush(self, end_offset: int) -> None:
        """Put everything placed so far, which ends at `end_offset`, on the disk."""
        if end_offset <= self.recovery_point or self.failure is not None:
            return
        if self._awaiting_open:
            await self.settle()  # they are not queued yet, so a job queued now would overtake them
        if self._segments.active.is_gone:
            return  # closed, and its folder may be set aside
        segments = self._segments.starting_from(self.recovery_point)

        cuts = self._cuts
        parent = None if self._folder_is_durable else parent_of(self._host.directory)

        def job() -> None:
            if parent is not None:
                self._environment.filesystem.sync_directory(parent)
            for segment in segments:
                sync_segment(self._environment.filesystem, segment.directory, segment.base_offset, segment.file)

        self._jobs.run_or_fail(job)
        await self.settle()
        if self.failure is None and cuts == self._cuts:
            self._folder_is_durable = True
            self.recovery_point = max(self.recovery_point, end_offset)

    async def finish(self, snapshot: bytes | None) -> None:
        """Leave the files as a clean start wants them: indexes whole and trimmed, a snapshot at the end, all flushed."""
        if self.failure is not None or (not self.has_written and self.recovery_point >= self.log_end_offset):
            return
        active, filesystem = self._segments.active, self._environment.filesystem
        end_offset = self.log_end_offset
        tails: list[tuple[str, bytes, int]] = []
        if active.file is not None:
            active.note_max_timestamp()
            tails = [
                (active.path(index.suffix), *index.unwritten()) for index in (active.offset_index, active.time_index)
            ]

        def job() -> None:
            for path, content, position in tails:
                write_index(filesystem, path, content, position)

        self._jobs.run_or_fail(job)
        await self.write_snapshot(snapshot)
        self.recovery_point = min(self.recovery_point, max(end_offset - 1, 0))  # the indexes are to be flushed as well
        await self.flush(end_offset)

    async def write_snapshot(self, content: bytes | None) -> None:
        """Keep the producers' state at the log's end, on the disk when this returns."""
        if content is None:
            return
        filesystem, directory = self._environment.filesystem, self._host.directory
        path = segment_path(directory, self.log_end_offset, SNAPSHOT_SUFFIX)

        def job() -> None:
            filesystem.write_bytes(path, content)
            sync_file(filesystem, path)
            filesystem.sync_directory(directory)

        self._jobs.run_or_fail(job)
        await self.settle()

    def write_file(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file of the log's folder, in order."""
        filesystem = self._environment.filesystem
        self._jobs.run_or_fail(partial(filesystem.replace if durable else filesystem.write_bytes, path, content))

    # --- order and failure ---

    @property
    def _is_busy(self) -> bool:
        return bool(self._in_flight or self._awaiting_open or self._jobs.count)

    async def settle(self) -> None:
        """Return when nothing of this log is on its way to the disk."""
        while self._is_busy:
            idle = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(idle)
            await idle

    def on_job_ended(self) -> None:
        """See `JobsOwner`."""
        if self._idle_waiters:
            self._wake_idle_waiters()

    def end_at(self, offset: int) -> None:
        """The log was cut: it ends at `offset`. Nothing may be on its way."""
        assert not self._in_flight and not self._awaiting_open
        self._cuts += 1
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)

    def _wake_idle_waiters(self) -> None:
        if not self._is_busy:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def fail(self, cause: OSError) -> None:
        """The disk refused: everything on its way fails, and the log ends where its written prefix ends."""
        if self.failure is not None:
            return
        self._jobs.error = self._jobs.error or cause
        self.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Writing to {self._host.directory} failed: {cause}")
        failed = [entry[3] for entry in self._in_flight] + [placement.done for placement in self._awaiting_open]
        self._in_flight.clear()
        self._awaiting_open.clear()
        for segment in self._segments:
            segment.end_bytes = segment.written_bytes
        self._host.on_write_failed(self.failure, cause)
        for done in failed:
            done(self.failure)
        self._wake_idle_waiters()


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _both(first: Done, second: Done) -> Done:
    def done(error: KafkaError | None) -> None:
        first(error)
        second(error)

    return done


def _unreported(error: OSError | None) -> None:
    """A write whose outcome the job behind it reports."""
