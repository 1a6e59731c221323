"""Reading a log: from an offset to a byte range, and from a timestamp to an offset.

Every lookup is written once, as a synchronous attempt over a `SegmentReader`. On the hot path it runs with what is in
memory; where it would wait for the disk it raises `Cold`, and the slow path runs the missing piece in a reader thread
and tries again with it. So nothing but the raw reads leaves the event loop.

The places where reads have ended are remembered (offset -> segment, position): a consumer that goes on where it
stopped, and every follower of the tail, needs no index.

Invariants: a read answers no byte of a batch that ends at or above its limit offset; a remembered place holds the first
batch whose last offset is at or above its offset.
Source: Kafka LocalLog.read, LogSegment.read, UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TypeVar

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader
from runtime.filesystem import Buffer
from runtime.slices import SHORT_ROWS, Slices
from storage.index import CorruptIndex
from storage.log_environment import LogEnvironment
from storage.recovery import open_segment, write_indexes
from storage.segment import (
    LENGTH_OVERHEAD_BYTES,
    LOG_SUFFIX,
    LONG_READ_BYTES,
    MIN_BATCH_BYTES,
    Cold,
    OpenedSegment,
    Segment,
    SegmentReader,
    check_fits,
    check_length,
)
from storage.segment_age import segment_ages
from storage.segments import Segments
from storage.timestamp_search import Sought, TimestampOffset, first_in_batch, next_batch
from storage.txn_index import ENTRY_BYTES, AbortedTransaction, find_in

logger = logging.getLogger(__name__)

T = TypeVar("T")

EMPTY = b""
# Of one log. Each takes some 200 bytes, and every partition that is read has them: a thousand partitions, 6 MB.
_REMEMBERED_PLACES = 32
_SEARCH_BYTES = 64 * 1024
_ABORTED_PIECE_BYTES = SHORT_ROWS * ENTRY_BYTES
# With so much behind what it takes, a reader catches up: one long piece after another, whose copying everybody else on the
# loop would feel, and in memory more often than not, because threads read ahead for it. A follower in a burst is less far
# behind, and whatever comes later for it comes later for all that wait for acks=all.
CATCHING_UP_BYTES = 64 * 1024 * 1024


class SegmentReplaced(KafkaError):
    """What was being read is to be looked for again: another segment, a cleaned one, holds it now, or the log was cut."""


class LogReader:
    """Reads the segments that a log shares with it. `log_end_offset` comes with each call."""

    __slots__ = (
        "_clock",
        "_cut",
        "_cuts",
        "_decompressing",
        "_filesystem",
        "_hot",
        "_index_interval_bytes",
        "_on_end_opened",
        "_open_segments",
        "_places",
        "_queue",
        "_readers",
        "_segments",
    )

    def __init__(
        self,
        segments: Segments,
        environment: LogEnvironment,
        index_interval_bytes: int,
        on_end_opened: Callable[[OpenedSegment], None],
    ) -> None:
        self._segments = segments
        self._clock = environment.clock
        self._filesystem = environment.filesystem
        self._queue = environment.queue
        self._readers = environment.readers
        self._decompressing = environment.decompressing
        self._open_segments = environment.open_segments
        self._index_interval_bytes = index_interval_bytes
        self._hot = SegmentReader(environment.filesystem)
        self._on_end_opened = on_end_opened
        self._places: dict[int, tuple[Segment, int]] = {}
        # Done when the cut that is under way is through.
        self._cut: asyncio.Future[None] | None = None
        # How often a cut has begun or ended: what came from the files before may be none of theirs any more.
        self._cuts = 0

    def forget_places(self) -> None:
        """Segments went away or were cut."""
        self._places.clear()

    @contextmanager
    def while_cut(self) -> Iterator[None]:
        """The active segment's files get shorter in here, its indexes in memory follow at the end."""
        assert self._cut is None
        cut = self._cut = asyncio.get_running_loop().create_future()
        self._cuts += 1
        try:
            yield
        finally:
            self._cut = None
            self._cuts += 1
            cut.set_result(None)

    # --- byte ranges ---

    def read(
        self, start_offset: int, limit_offset: int, max_bytes: int, *, at_least_one: bool, log_end_offset: int
    ) -> Buffer | None:
        """None when the bytes are cold. `log_start_offset <= start_offset < limit_offset <= log_end_offset`."""
        try:
            return self._read(self._hot, start_offset, limit_offset, max_bytes, at_least_one, log_end_offset)
        except Cold:
            return None

    async def read_cold(
        self,
        start_offset: int,
        limit_offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
        log_end_offset: Callable[[], int],
    ) -> Buffer:
        """`log_end_offset` is asked at each attempt: the log may have grown while the disk was waited for."""
        return await self._again_when_replaced(
            lambda: self._waiting(
                lambda reader: self._read(reader, start_offset, limit_offset, max_bytes, at_least_one, log_end_offset())
            )
        )

    def _read(
        self,
        reader: SegmentReader,
        start_offset: int,
        limit_offset: int,
        max_bytes: int,
        at_least_one: bool,
        log_end_offset: int,
    ) -> Buffer:
        segment, position = self._place(start_offset, reader)
        end = self._limit_position(segment, limit_offset, log_end_offset, reader)
        while position >= end:
            following = self._segments.after(segment)
            if following is None or following.base_offset >= limit_offset:
                return EMPTY
            segment, position = following, 0
            end = self._limit_position(segment, limit_offset, log_end_offset, reader)
        if segment is not self._segments.active:
            self._open_segments.touch(segment)
        length = max(min(max_bytes, end - position), LENGTH_OVERHEAD_BYTES)
        may_be_hot = length < LONG_READ_BYTES or end - position - length < CATCHING_UP_BYTES
        chunk = reader.log_bytes(segment, length, position, LENGTH_OVERHEAD_BYTES, may_be_hot=may_be_hot)
        first_bytes = LENGTH_OVERHEAD_BYTES + check_length(segment, int.from_bytes(chunk[8:12], "big"), position)
        if len(chunk) < first_bytes:
            check_fits(segment, first_bytes, position)
            if not at_least_one and length < first_bytes:
                return EMPTY
            length = max(first_bytes, length)
            chunk = reader.log_bytes(segment, length, position, first_bytes, may_be_hot=may_be_hot)
        self._remember_end(segment, position, chunk, end, limit_offset, log_end_offset, reader)
        return chunk

    def _place(self, offset: int, reader: SegmentReader) -> tuple[Segment, int]:
        """The segment and position of the first batch whose last offset is at or above `offset`."""
        place = self._places.get(offset)
        if place is None:
            segment = self._segments.at_or_before(offset)
            place = (segment, segment.position_of(offset, reader))
        return place

    def _limit_position(self, segment: Segment, limit_offset: int, log_end_offset: int, reader: SegmentReader) -> int:
        """Where reading of `segment` ends when it ends at `limit_offset`."""
        if limit_offset >= self._segments.end_offset(segment, log_end_offset):
            return segment.written_bytes
        place = self._places.get(limit_offset)
        if place is not None and place[0] is segment:
            return place[1]
        position = segment.position_of(limit_offset, reader)
        self._remember(limit_offset, segment, position)
        return position

    def _remember_end(
        self,
        segment: Segment,
        position: int,
        chunk: Buffer,
        end: int,
        limit_offset: int,
        log_end_offset: int,
        reader: SegmentReader,
    ) -> None:
        if position + len(chunk) == end:
            end_offset = min(limit_offset, self._segments.end_offset(segment, log_end_offset))
            self._remember(end_offset, segment, end)
            return
        found = segment.end_of_whole_batches(chunk, position, reader)
        if found is not None:
            self._remember(found[0], segment, found[1])

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if len(places) >= _REMEMBERED_PLACES and offset not in places:
            del places[next(iter(places))]
        places[offset] = (segment, position)

    def bytes_between(self, start_offset: int, limit_offset: int, log_end_offset: int) -> int:
        """Bytes from the batch of `start_offset` to `limit_offset`; an estimate when the batches are cold."""
        if start_offset >= limit_offset:
            return 0
        try:
            segment, position = self._place(start_offset, self._hot)
            size = -position
            while self._segments.end_offset(segment, log_end_offset) < limit_offset:
                size += segment.written_bytes
                following = self._segments.after(segment)
                assert following is not None
                segment = following
            return max(size + self._limit_position(segment, limit_offset, log_end_offset, self._hot), 0)
        except Cold as cold:
            return cold.segment.written_bytes

    # --- aborted transactions ---

    def aborted_in(self, start_offset: int, size_bytes: int, log_end_offset: int) -> list[AbortedTransaction] | None:
        """Those that overlap the `size_bytes` bytes that a read at `start_offset` has answered; None when that is cold."""
        segments = self._segments
        if not segments.has_aborted_from(start_offset):
            return []
        try:
            upper_bound_offset = self._upper_bound_offset(self._hot, start_offset, size_bytes, log_end_offset)
            found: list[AbortedTransaction] = []
            for segment in segments.starting_from(start_offset):
                of_segment = segment.find_aborted(start_offset, upper_bound_offset, self._hot)
                found += of_segment.transactions
                if of_segment.is_complete:
                    break
                if len(found) > SHORT_ROWS:
                    return None  # others are to run in between
        except Cold:
            return None
        return found

    async def read_cold_with_aborted(
        self,
        start_offset: int,
        limit_offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
        log_end_offset: Callable[[], int],
    ) -> tuple[Buffer, list[AbortedTransaction]]:
        """As `read_cold`; and the aborted transactions that overlap what it answers. Both are of one state of the files: what
        is cleaned or deleted takes its transactions along, and so many bytes end at another offset in a cleaned segment."""

        def read(reader: SegmentReader) -> tuple[Buffer, int]:
            end_offset = log_end_offset()
            chunk = self._read(reader, start_offset, limit_offset, max_bytes, at_least_one, end_offset)
            if not chunk or not self._segments.has_aborted_from(start_offset):
                return chunk, start_offset
            return chunk, self._upper_bound_offset(reader, start_offset, len(chunk), end_offset)

        async def attempt() -> tuple[Buffer, list[AbortedTransaction]]:
            chunk, upper_bound_offset = await self._waiting(read)
            if upper_bound_offset == start_offset:
                return chunk, []
            return chunk, await self._aborted_between(start_offset, upper_bound_offset, needs_all=True)

        return await self._again_when_replaced(attempt)

    def _upper_bound_offset(
        self, reader: SegmentReader, start_offset: int, size_bytes: int, log_end_offset: int
    ) -> int:
        """An offset behind the `size_bytes` bytes that a read at `start_offset` has answered."""
        segment, position = self._place(start_offset, reader)
        while position >= segment.written_bytes:
            following = self._segments.after(segment)
            if following is None:
                return start_offset
            segment, position = following, 0
        self._need_open(segment)
        upper_bound_offset = segment.upper_bound_offset(position, size_bytes, reader)
        if upper_bound_offset is None:
            upper_bound_offset = self._segments.end_offset(segment, log_end_offset)
        return upper_bound_offset

    async def aborted_between(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [start_offset, upper_bound_offset), in the order of their markers."""
        return await self._again_when_replaced(lambda: self._aborted_between(start_offset, upper_bound_offset))

    async def _aborted_between(
        self, start_offset: int, upper_bound_offset: int, *, needs_all: bool = False
    ) -> list[AbortedTransaction]:
        """Of the log as it is when this begins, piece by piece, each of them once. Without `needs_all`, what is deleted
        meanwhile may be missing. Raises SegmentReplaced, KAFKA_STORAGE_ERROR, CorruptTxnIndex."""
        found: list[AbortedTransaction] = []
        cuts, slices = self._cuts, Slices(self._clock)
        for segment in self._segments.starting_from(start_offset):
            index = segment.txn_index
            if index is None:
                continue
            if segment.base_offset < self._segments.first.base_offset and not needs_all:
                continue  # the log begins behind it by now
            content = await self._waiting(partial(SegmentReader.txn_index_bytes, segment=segment, index=index))
            for at in range(0, len(content), _ABORTED_PIECE_BYTES):
                # Copied: a view would keep the index from growing meanwhile.
                piece = find_in(bytes(content[at : at + _ABORTED_PIECE_BYTES]), start_offset, upper_bound_offset)
                found += piece.transactions
                if piece.is_complete:
                    return found
                await slices.breathe()
                if cuts != self._cuts:
                    raise self._was_cut()
        return found

    # --- timestamps ---

    async def offset_for_timestamp(self, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """The first record at or behind `start_offset` whose timestamp is at least `timestamp`."""
        sought = Sought(timestamp, start_offset)
        return await self._again_when_replaced(lambda: self._offset_for_timestamp(sought))

    async def _offset_for_timestamp(self, sought: Sought) -> TimestampOffset | None:
        for segment in self._segments.starting_from(sought.start_offset):
            await self._ensure_known(segment)
            if segment.max_timestamp < sought.timestamp:
                continue
            found = await self._first_record(segment, partial(self._search_position, segment, sought), sought)
            if found is not None:
                return found
        return None

    def _search_position(self, segment: Segment, sought: Sought, reader: SegmentReader) -> int:
        index = segment.time_index
        self._need_open(segment)
        entry = index.floor(sought.timestamp, partial(reader.index_bytes, segment, index))
        offset = sought.start_offset if entry is None else max(sought.start_offset, segment.base_offset + entry[1])
        return segment.indexed_position(offset, reader)

    async def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp of all that the files hold, in the first segment that has it:
        it may be deleted already, or have no timestamp where none has, as in Kafka."""
        return await self._again_when_replaced(self._offset_of_max_timestamp)

    async def _offset_of_max_timestamp(self) -> TimestampOffset | None:
        latest = self._segments.first
        for segment in self._segments:
            await self._ensure_known(segment)
            if segment.max_timestamp > latest.max_timestamp:
                latest = segment
        sought = Sought(latest.max_timestamp, is_largest=True)
        return await self._first_record(
            latest, partial(latest.indexed_position, latest.offset_of_max_timestamp), sought
        )

    async def _first_record(
        self, segment: Segment, position_of: Callable[[SegmentReader], int], sought: Sought
    ) -> TimestampOffset | None:
        """The segment may have to be walked to its end: piece by piece, and others run in between."""
        cuts, slices = self._cuts, Slices(self._clock)
        position, end = await self._waiting(position_of), segment.written_bytes
        while position < end:
            left = end - position
            chunk = await self._log_bytes(segment, min(_SEARCH_BYTES, left), position, min(MIN_BATCH_BYTES, left))
            at, header = next_batch(chunk, 0, segment, position, sought)
            while header is not None:
                batch = memoryview(chunk)[at : at + header.size_bytes]
                if len(batch) < header.size_bytes:
                    check_fits(segment, header.size_bytes, position + at)
                    batch = memoryview(
                        await self._log_bytes(segment, header.size_bytes, position + at, header.size_bytes)
                    )
                found = await self._first_in_batch(batch, header, sought, slices)
                if cuts != self._cuts:
                    raise self._was_cut()
                if found is not None or sought.is_largest:
                    return found
                at, header = next_batch(chunk, at + header.size_bytes, segment, position, sought)
            position += at
            await slices.breathe()
            if cuts != self._cuts:
                raise self._was_cut()
        return None

    async def _first_in_batch(
        self, batch: Buffer, header: BatchHeader, sought: Sought, slices: Slices
    ) -> TimestampOffset | None:
        async with self._decompressing if header.is_compressed else nullcontext():
            steps = first_in_batch(batch, header, sought)
            while True:
                await slices.breathe()
                try:
                    next(steps)
                except StopIteration as last:
                    found: TimestampOffset | None = last.value
                    return found

    async def _log_bytes(self, segment: Segment, length: int, position: int, at_least: int) -> Buffer:
        return await self._waiting(lambda reader: reader.log_bytes(segment, length, position, at_least))

    def _need_open(self, segment: Segment) -> None:
        if segment.file is None:
            raise Cold(segment, ("", segment, 0, 0), None)

    # --- waiting for the disk ---

    async def position_of(self, segment: Segment, offset: int) -> int:
        """See `Segment.position_of`; the segment is open when it returns."""
        return await self._waiting(partial(segment.position_of, offset))

    async def _waiting(self, attempt: Callable[[SegmentReader], T]) -> T:
        """Run `attempt` until nothing it needs is cold; what it needed is read once, in reader threads.

        Raises SegmentReplaced, KAFKA_STORAGE_ERROR.
        """
        reader = SegmentReader(self._filesystem, {})
        cuts = self._cuts
        segment: Segment | None = None
        while True:
            try:
                return attempt(reader)
            except Cold as cold:
                segment, key, job = cold.segment, cold.key, cold.job
            except CorruptIndex as error:
                assert segment is not None, "an index in memory is sound"
                raise await self._why_corrupt(segment, cuts, error) from error
            except OSError as error:  # of what is read at once, as it is in memory
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read: {error}") from error
            if job is None:
                await self.open(segment)
                continue
            segment.pins += 1
            try:
                assert reader.fetched is not None
                reader.fetched[key] = await self._readers.run(job)
                self._raise_if_replaced(segment)  # a file of the same name may be what was read
            except OSError as error:
                self._raise_if_replaced(segment)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read {segment}: {error}") from error
            finally:
                segment.pins -= 1
                self._open_segments.unpinned(segment)
            if cuts != self._cuts:
                raise self._was_cut()

    async def _why_corrupt(self, segment: Segment, cuts: int, error: CorruptIndex) -> KafkaError:
        """What to raise when the file of an index is not what its segment has in memory."""
        if self._cut is not None:
            await asyncio.shield(self._cut)
        if cuts != self._cuts:
            return self._was_cut()
        self._raise_if_gone(segment)
        logger.warning("index is damaged: file=%s problem=%r", segment.path(LOG_SUFFIX), str(error))
        if segment is not self._segments.active:
            self._open_segments.close(segment)  # the next read opens it, and goes by what the files hold then
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"An index of {segment} is damaged: {error}")

    def _was_cut(self) -> SegmentReplaced:
        return SegmentReplaced(ErrorCode.KAFKA_STORAGE_ERROR, "The log was cut while it was read.")

    async def _again_when_replaced(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt`, which finds its segments by itself, until none of them was replaced or cut meanwhile."""
        while True:
            with suppress(SegmentReplaced):
                return await attempt()

    def _raise_if_replaced(self, segment: Segment) -> None:
        """Raise SegmentReplaced if the log still has what `segment` was opened for."""
        holder = self._segments.at_or_before(segment.base_offset)
        if segment.is_gone and not holder.is_gone and holder.base_offset <= segment.base_offset:
            raise SegmentReplaced(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment} was cleaned while it was read.")

    def _raise_if_gone(self, segment: Segment) -> None:
        """Raises SegmentReplaced, KAFKA_STORAGE_ERROR."""
        if segment.is_gone:
            self._raise_if_replaced(segment)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment} was removed while it was read.")

    async def _ensure_known(self, segment: Segment) -> None:
        while not segment.knows_timestamps:
            if segment is self._segments.active or segment.is_awaited:
                await self.open(segment)
            else:
                await self._learn_age(segment)

    async def _learn_age(self, segment: Segment) -> None:
        """What the last entries of its indexes say of a closed segment: a search passes most of them by."""
        cuts = self._cuts
        self._raise_if_gone(segment)
        job = partial(segment_ages, self._filesystem, [segment], self._index_interval_bytes)
        try:
            (age,) = await self._readers.run(job)
        except OSError as error:
            self._raise_if_replaced(segment)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read {segment}: {error}") from error
        self._raise_if_gone(segment)
        if cuts != self._cuts:
            raise self._was_cut()
        segment.learn_age(age)

    async def open(self, segment: Segment) -> None:
        """Open a closed segment, in a reader thread. Raises KAFKA_STORAGE_ERROR."""
        if segment.is_awaited:
            await self._queue.drain()
            return
        self._raise_if_gone(segment)
        try:
            opened = await self._readers.run(
                partial(
                    open_segment, self._filesystem, segment.directory, segment.base_offset, self._index_interval_bytes
                )
            )
        except OSError as error:
            self._raise_if_replaced(segment)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot open {segment}: {error}") from error
        if opened.has_new_indexes and segment.file is None and not (segment.is_gone or segment.is_awaited):
            await self._keep_indexes(segment, opened)
        if segment.is_gone:
            await self._readers.run(opened.file.close)
            self._raise_if_gone(segment)
        if segment.file is not None or segment.is_awaited:
            await self._readers.run(opened.file.close)  # somebody else was faster
            return
        segment.install(opened)
        if segment is self._segments.active:
            self._on_end_opened(opened)
        if opened.problem is not None:
            logger.warning("segment is damaged: file=%s problem=%r", segment.path(LOG_SUFFIX), opened.problem)
        if segment is not self._segments.active:
            self._open_segments.touch(segment)

    async def _keep_indexes(self, segment: Segment, opened: OpenedSegment) -> None:
        """Write indexes that were made again, in the directory's queue: behind what has the names of the segment's files
        now, before what takes them later."""
        try:
            await self._queue.run(
                partial(write_indexes, self._filesystem, segment.directory, segment.base_offset, opened)
            )
        except OSError as error:  # what is read needs them in memory only
            logger.warning("indexes not written: file=%s error=%s", segment.path(LOG_SUFFIX), error)
