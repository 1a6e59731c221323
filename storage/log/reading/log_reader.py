"""Reads a log: finds the byte range at an offset, and the offset of a timestamp.

Every lookup is written once, as a synchronous attempt over a `SegmentReader`. On the hot path it runs with what is in memory;
where it would wait for the disk it raises `Cold`, and `ColdReading` runs the missing piece in a reader thread and tries again
with it. So only raw reads run outside of the event loop.

The end positions of reads are cached (offset -> segment, position): a consumer that reads sequentially, and every follower at
the log end, needs no index.

Invariants: a read returns no byte of a batch that ends at or above its limit offset; a cached position is that of the first
batch whose last offset is at or above its offset. A range ends at or below the high watermark, and its bytes are the
segment's until it is released or revoked (`storage.segments.ranges_in_flight`).
Source: Kafka LocalLog.read, LogSegment.read, UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import cast

from protocol.records.batch import BatchHeader
from runtime.disk.filesystem import Buffer, File
from runtime.network.file_range import BEGUN_BYTES, FileRange
from runtime.slices import SHORT_ROWS, Slices
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.reading.cold_reading import ColdReading
from storage.log.reading.timestamp_search import Sought, TimestampOffset, first_in_batch, next_batch
from storage.segments.segment import (
    LENGTH_OVERHEAD_BYTES,
    LONG_READ_BYTES,
    MIN_BATCH_BYTES,
    Cold,
    Segment,
    SegmentReader,
    check_fits,
    check_length,
)
from storage.segments.segment_list import Segments
from storage.segments.txn_index import ENTRY_BYTES, AbortedTxn, find_in

EMPTY = b""
# Of one log. Each takes some 200 bytes, in every partition that is read: 6 MB for a thousand partitions.
_REMEMBERED_PLACES = 32
_SEARCH_BYTES = 64 * 1024
_ABORTED_PIECE_BYTES = SHORT_ROWS * ENTRY_BYTES
# A reader this far behind the log end is catching up: it reads long pieces in sequence. Copying them on the event loop would
# delay everything else, so threads do it. A follower in a burst is less far behind, and its reads stay on the loop, because a
# delay there delays all producers with acks=all.
CATCHING_UP_BYTES = 8 * 1024 * 1024
# From this length on, bytes leave from the page cache: below it, reading them costs less than a thread that sends them.
RANGE_BYTES = 128 * 1024
# Of a range, one page in so many bytes is looked at, and the last one: if all are in memory, so is the rest.
_PROBE_BYTES = 512 * 1024
# Reads below no offset may be ranges.
NO_RANGES = -1


class LogReader:
    """Reads the segments of a log, which it shares with the log, as the offsets; `cold` waits for the disk."""

    __slots__ = ("_environment", "_hot", "_offsets", "_open_segments", "_positions", "cold", "segments")

    def __init__(self, segments: Segments, offsets: LogOffsets, environment: LogEnvironment, cold: ColdReading) -> None:
        self.segments = segments
        self._offsets = offsets
        self._environment = environment
        self._open_segments = environment.open_segments
        self._hot = SegmentReader(environment.filesystem)
        self._positions: dict[int, tuple[Segment, int]] = {}
        self.cold = cold

    def forget_positions(self) -> None:
        """Drop cached positions, because segments were removed or truncated."""
        self._positions.clear()

    # --- byte ranges ---

    def read(self, start_offset: int, limit_offset: int, max_bytes: int, *, at_least_one: bool) -> Buffer | None:
        """Return the bytes; None when they are cold. `log_start_offset <= start_offset < limit_offset <= log_end_offset`."""
        found = self.read_to_send(
            start_offset, limit_offset, max_bytes, at_least_one=at_least_one, ranges_below=NO_RANGES
        )
        return cast("Buffer | None", found)

    def read_to_send(
        self, start_offset: int, limit_offset: int, max_bytes: int, *, at_least_one: bool, ranges_below: int
    ) -> Buffer | FileRange | None:
        """Like `read`; many bytes below the offset `ranges_below` may be a range of the file."""
        try:
            records = self._read(self._hot, start_offset, limit_offset, max_bytes, at_least_one, ranges_below)
        except Cold:
            return None
        self._environment.disk_use.memory_bytes += len(records)
        return records

    async def read_cold(
        self, start_offset: int, limit_offset: int, max_bytes: int, *, at_least_one: bool, check: Callable[[], None]
    ) -> Buffer:
        """Return the bytes, waiting for the disk. `check` is called at each attempt; it raises the caller's error when the log
        no longer contains the offset."""

        def read(reader: SegmentReader) -> Buffer:
            check()
            return self._read_buffer(reader, start_offset, limit_offset, max_bytes, at_least_one)

        records = await self.cold.retry_when_replaced(lambda: self.cold.run(read))
        self._environment.disk_use.disk_bytes += len(records)
        return records

    def _read_buffer(
        self, reader: SegmentReader, start_offset: int, limit_offset: int, max_bytes: int, at_least_one: bool
    ) -> Buffer:
        return cast("Buffer", self._read(reader, start_offset, limit_offset, max_bytes, at_least_one, NO_RANGES))

    def _read(
        self,
        reader: SegmentReader,
        start_offset: int,
        limit_offset: int,
        max_bytes: int,
        at_least_one: bool,
        ranges_below: int,
    ) -> Buffer | FileRange:
        segment, position = self._place(start_offset, reader)
        end = self._limit_position(segment, limit_offset, reader)
        while position >= end:
            following = self.segments.after(segment)
            if following is None or following.base_offset >= limit_offset:
                return EMPTY
            segment, position = following, 0
            end = self._limit_position(segment, limit_offset, reader)
        if segment is not self.segments.active:
            self._open_segments.touch(segment)
        length = max(min(max_bytes, end - position), LENGTH_OVERHEAD_BYTES)
        if length >= RANGE_BYTES and ranges_below > start_offset:
            limit = min(limit_offset, ranges_below)
            found = self._range(segment, position, max_bytes, limit, at_least_one=at_least_one)
            if found is not None:
                return found
        may_be_hot = length < LONG_READ_BYTES or end - position - length < CATCHING_UP_BYTES
        chunk = reader.log_bytes(segment, length, position, LENGTH_OVERHEAD_BYTES, may_be_hot=may_be_hot)
        first_bytes = LENGTH_OVERHEAD_BYTES + check_length(segment, int.from_bytes(chunk[8:12], "big"), position)
        if len(chunk) < first_bytes:
            check_fits(segment, first_bytes, position)
            if not at_least_one and length < first_bytes:
                return EMPTY
            length = max(first_bytes, length)
            chunk = reader.log_bytes(segment, length, position, first_bytes, may_be_hot=may_be_hot)
        self._remember_end(segment, position, chunk, end, limit_offset, reader)
        return chunk

    def _range(
        self, segment: Segment, position: int, max_bytes: int, limit_offset: int, *, at_least_one: bool
    ) -> FileRange | None:
        """Decide whether a read leaves from the page cache: it does when it is long and in memory. Raises Cold.

        The callers have seen to the rest: the connection takes ranges, and a clean election truncates no record below
        `limit_offset`. What a reader far behind gets is a range, too, since nothing of it is copied on the event loop.
        """
        reader, file = self._hot, segment.file
        end = self._limit_position(segment, limit_offset, reader)
        length = min(max_bytes, end - position)
        if length < RANGE_BYTES or file is None:
            return None
        head = reader.log_bytes(segment, LENGTH_OVERHEAD_BYTES, position, LENGTH_OVERHEAD_BYTES)
        first_bytes = LENGTH_OVERHEAD_BYTES + check_length(segment, int.from_bytes(head[8:12], "big"), position)
        if at_least_one and length < first_bytes:
            length = first_bytes
        if length < first_bytes or length > end - position or not _is_in_memory(file, position, length):
            return None
        if position + length == end:
            self._remember(min(limit_offset, self._end_offset(segment)), segment, end)
        else:
            found = segment.end_of_batches_before(position, position + length, reader)
            if found is not None:
                self._remember(found[0], segment, found[1])
        return self._environment.ranges_in_flight.begin(segment, position, length)

    def _place(self, offset: int, reader: SegmentReader) -> tuple[Segment, int]:
        """Find the segment and position of the first batch whose last offset is at or above `offset`."""
        place = self._positions.get(offset)
        if place is None:
            segment = self.segments.at_or_before(offset)
            place = (segment, segment.position_of(offset, reader))
        return place

    def _end_offset(self, segment: Segment) -> int:
        """Return where the segment's range of offsets ends."""
        following = self.segments.after(segment)
        return self._offsets.log_end_offset if following is None else following.base_offset

    def _limit_position(self, segment: Segment, limit_offset: int, reader: SegmentReader) -> int:
        """Find where a read of `segment` ends that may return offsets below `limit_offset`."""
        if limit_offset >= self._end_offset(segment):
            return segment.written_bytes
        place = self._positions.get(limit_offset)
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
        reader: SegmentReader,
    ) -> None:
        if position + len(chunk) == end:
            self._remember(min(limit_offset, self._end_offset(segment)), segment, end)
            return
        found = segment.end_of_whole_batches(chunk, position, reader)
        if found is not None:
            self._remember(found[0], segment, found[1])

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._positions
        if len(places) >= _REMEMBERED_PLACES and offset not in places:
            del places[next(iter(places))]
        places[offset] = (segment, position)

    async def position_of(self, segment: Segment, offset: int) -> int:
        """See `Segment.position_of`; the segment is open when it returns."""
        return await self.cold.run(partial(segment.position_of, offset))

    def bytes_between(self, start_offset: int, limit_offset: int) -> int:
        """Count the bytes from the batch of `start_offset` to `limit_offset`; an estimate when the batches are cold."""
        if start_offset >= limit_offset:
            return 0
        try:
            segment, position = self._place(start_offset, self._hot)
            size = -position
            while self._end_offset(segment) < limit_offset:
                size += segment.written_bytes
                following = self.segments.after(segment)
                assert following is not None
                segment = following
            return max(size + self._limit_position(segment, limit_offset, self._hot), 0)
        except Cold as cold:
            return cold.segment.written_bytes

    # --- aborted transactions ---

    def aborted_in(self, start_offset: int, size_bytes: int) -> list[AbortedTxn] | None:
        """Return the aborted transactions that overlap the `size_bytes` bytes of a read at `start_offset`; None when that is
        cold."""
        segments = self.segments
        if not segments.has_aborted_from(start_offset):
            return []
        try:
            upper_bound_offset = self._upper_bound_offset(self._hot, start_offset, size_bytes)
            found: list[AbortedTxn] = []
            for segment in segments.starting_from(start_offset):
                of_segment = segment.find_aborted(start_offset, upper_bound_offset, self._hot)
                found += of_segment.transactions
                if of_segment.is_complete:
                    break
                if len(found) > SHORT_ROWS:
                    return None  # other work must run in between
        except Cold:
            return None
        return found

    async def read_cold_with_aborted(
        self, start_offset: int, limit_offset: int, max_bytes: int, *, at_least_one: bool, check: Callable[[], None]
    ) -> tuple[Buffer, list[AbortedTxn]]:
        """Like `read_cold`, with the aborted transactions that overlap the bytes. Both are of one state of the files, because
        cleaning and deletion remove transactions as well, and the same number of bytes ends at another offset in a cleaned
        segment."""

        def read(reader: SegmentReader) -> tuple[Buffer, int]:
            check()
            chunk = self._read_buffer(reader, start_offset, limit_offset, max_bytes, at_least_one)
            if not chunk or not self.segments.has_aborted_from(start_offset):
                return chunk, start_offset
            return chunk, self._upper_bound_offset(reader, start_offset, len(chunk))

        async def attempt() -> tuple[Buffer, list[AbortedTxn]]:
            chunk, upper_bound_offset = await self.cold.run(read)
            self._environment.disk_use.disk_bytes += len(chunk)
            if upper_bound_offset == start_offset:
                return chunk, []
            return chunk, await self._aborted_between(start_offset, upper_bound_offset, needs_all=True)

        return await self.cold.retry_when_replaced(attempt)

    def _upper_bound_offset(self, reader: SegmentReader, start_offset: int, size_bytes: int) -> int:
        """Return an offset behind the `size_bytes` bytes of a read at `start_offset`."""
        segment, position = self._place(start_offset, reader)
        while position >= segment.written_bytes:
            following = self.segments.after(segment)
            if following is None:
                return start_offset
            segment, position = following, 0
        self._need_open(segment)
        upper_bound_offset = segment.upper_bound_offset(position, size_bytes, reader)
        if upper_bound_offset is None:
            upper_bound_offset = self._end_offset(segment)
        return upper_bound_offset

    async def aborted_between(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap [start_offset, upper_bound_offset), in the order of their markers."""
        return await self.cold.retry_when_replaced(lambda: self._aborted_between(start_offset, upper_bound_offset))

    async def _aborted_between(
        self, start_offset: int, upper_bound_offset: int, *, needs_all: bool = False
    ) -> list[AbortedTxn]:
        """Collect the transactions of the log as it is at the call, piece by piece, each once. Without `needs_all`,
        transactions that are deleted meanwhile may be missing. Raises SegmentReplaced, KAFKA_STORAGE_ERROR, CorruptTxnIndex."""
        found: list[AbortedTxn] = []
        truncations, slices = self.cold.truncations, Slices(self._environment.clock)
        for segment in self.segments.starting_from(start_offset):
            index = segment.txn_index
            if index is None:
                continue
            if segment.base_offset < self.segments.first.base_offset and not needs_all:
                continue  # the log begins behind it by now
            content = await self.cold.run(partial(SegmentReader.txn_index_bytes, segment=segment, index=index))
            for at in range(0, len(content), _ABORTED_PIECE_BYTES):
                # Copied: a view would keep the index from growing meanwhile.
                piece = find_in(bytes(content[at : at + _ABORTED_PIECE_BYTES]), start_offset, upper_bound_offset)
                found += piece.transactions
                if piece.is_complete:
                    return found
                await slices.yield_if_due()
                self.cold.raise_if_truncated_since(truncations)
        return found

    # --- timestamps ---

    async def offset_for_timestamp(self, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """Find the first record at or behind `start_offset` whose timestamp is at least `timestamp`."""
        sought = Sought(timestamp, start_offset)
        return await self.cold.retry_when_replaced(lambda: self._offset_for_timestamp(sought))

    async def _offset_for_timestamp(self, sought: Sought) -> TimestampOffset | None:
        for segment in self.segments.starting_from(sought.start_offset):
            await self.cold.ensure_timestamps_known(segment)
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
        """Find the first record with the largest timestamp in the files. As in Kafka it may be deleted already, or have no
        timestamp when no record has one."""
        return await self.cold.retry_when_replaced(self._offset_of_max_timestamp)

    async def _offset_of_max_timestamp(self) -> TimestampOffset | None:
        latest = self.segments.first
        for segment in self.segments:
            await self.cold.ensure_timestamps_known(segment)
            if segment.max_timestamp > latest.max_timestamp:
                latest = segment
        sought = Sought(latest.max_timestamp, is_largest=True)
        return await self._first_record(
            latest, partial(latest.indexed_position, latest.offset_of_max_timestamp), sought
        )

    async def _first_record(
        self, segment: Segment, position_of: Callable[[SegmentReader], int], sought: Sought
    ) -> TimestampOffset | None:
        """Find the record in a segment that may have to be read to its end: piece by piece, and other work runs in between."""
        truncations, slices = self.cold.truncations, Slices(self._environment.clock)
        position, end = await self.cold.run(position_of), segment.written_bytes
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
                self.cold.raise_if_truncated_since(truncations)
                if found is not None or sought.is_largest:
                    return found
                at, header = next_batch(chunk, at + header.size_bytes, segment, position, sought)
            position += at
            await slices.yield_if_due()
            self.cold.raise_if_truncated_since(truncations)
        return None

    async def _first_in_batch(
        self, batch: Buffer, header: BatchHeader, sought: Sought, slices: Slices
    ) -> TimestampOffset | None:
        async with self._environment.decompressing if header.is_compressed else nullcontext():
            steps = first_in_batch(batch, header, sought)
            while True:
                await slices.yield_if_due()
                try:
                    next(steps)
                except StopIteration as last:
                    found: TimestampOffset | None = last.value
                    return found

    async def _log_bytes(self, segment: Segment, length: int, position: int, at_least: int) -> Buffer:
        return await self.cold.run(lambda reader: reader.log_bytes(segment, length, position, at_least))

    def _need_open(self, segment: Segment) -> None:
        if segment.file is None:
            raise Cold(segment, ("", segment, 0, 0), None)


def _is_in_memory(file: File, position: int, length: int) -> bool:
    """Whether some pages of a range are in memory: the end of what leaves first, one in so many bytes, and the last one; its
    first one was read."""
    last = position + length - 1
    if length > BEGUN_BYTES and not file.read_hot(1, position + BEGUN_BYTES - 1):
        return False
    return all(file.read_hot(1, at) for at in range(position + _PROBE_BYTES, last, _PROBE_BYTES)) and bool(
        file.read_hot(1, last)
    )
