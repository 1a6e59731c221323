"""The work of one cleaning: building the offset map from the dirty segments, then copying what stays into new ones.

    0…0.log  0…80.log  0…95.log     one group          0…0.log.cleaned   0…0.index.cleaned   0…0.timeindex.cleaned
    ──────────────────────────►  what is still needed  ─────────────►   (and .txnindex.cleaned)

Rules: generators of blocking steps. Each step reads, computes and writes a little, yields how many bytes it has moved, and
touches only its log's folder; the caller runs the steps one after the other in a thread, and waits, throttles or aborts in
between. Nothing else in the folder is changed: exchanging the segments is `storage.segments.segment_swap`.
Invariants: memory holds the map, one piece of a segment (or one batch, where that is larger), and what was not written yet;
every batch is read with its checksum before it counts; the `.cleaned` files are on the disk when `clean_group` ends.
Source: Kafka Cleaner (buildOffsetMap, cleanSegments, cleanInto).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from protocol.records.any_format import iter_any_records, read_any_header
from protocol.records.batch import MAGIC_V2, BatchHeader
from runtime.disk.filesystem import Buffer, FileSystem
from storage.cleaner.batch_cleaning import (
    BatchCleaner,
    CleanedTransactions,
    CleaningOutcome,
    LastRecord,
    read_keys,
)
from storage.cleaner.compaction import SegmentSizes, group_segments
from storage.cleaner.latest_offsets import LatestOffsets
from storage.cleaner.offset_map import OffsetMap
from storage.segments.segment_copy import (
    CLEANED_SUFFIXES,
    STEP_BYTES,
    CleanedSegment,
    SegmentCopy,
    SegmentOverflow,
    batches_of,
)
from storage.segments.segment_files import LOG_SUFFIX, segment_path
from storage.segments.stored_batches import MAX_LOADED_BYTES
from storage.segments.txn_index import AbortedTxn

MIN_READ_BYTES = 4096
# A step also ends after this number of records: some 2 ms of work.
STEP_RECORDS = 1000
# The latest offsets may take one part in so many of the map's buffer.
LATEST_SHARE = 4
MARKED_AT_ONCE = 20_000
_NUMBERS = list(range(STEP_RECORDS))


@dataclass(frozen=True, slots=True)
class CleaningRequest:
    """The input of a cleaning. `segments` are those before the first uncleanable offset, in order."""

    directory: str
    segments: Sequence[int]
    """Base offsets."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int


@dataclass(slots=True)
class CleaningStats:
    """Counts of a cleaning so far."""

    bytes_indexed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0


class LogCleaning:
    """Cleans the segments of one log. Run all steps of `build_map`, then of `clean_group` for each of `groups`, in order."""

    def __init__(self, filesystem: FileSystem, request: CleaningRequest) -> None:
        self._filesystem = filesystem
        self._request = request
        self.stats = CleaningStats()
        dirty_offsets = max(request.first_uncleanable_offset - request.first_dirty_offset, 0)
        self.map = OffsetMap(request.dedupe_buffer_bytes, request.load_factor, dirty_offsets)
        self._cleaner = BatchCleaner(self.map, now_ms=request.now_ms, delete_retention_ms=request.delete_retention_ms)
        # Whether the records of every batch without gaps have the offset deltas 0, 1, 2 and so on.
        self._is_regular = True
        self._moved_bytes = 0
        self._records = 0

    @property
    def end_offset(self) -> int:
        """The offset up to which the log is clean afterwards."""
        return self.map.latest_offset + 1

    # --- steps ---

    def _work(self, moved_bytes: int, records: int) -> bool:
        """Count work; returns whether the step is over."""
        self._moved_bytes += moved_bytes
        self._records += records
        return self._moved_bytes >= STEP_BYTES or self._records >= STEP_RECORDS

    def _end_step(self) -> int:
        moved_bytes, self._moved_bytes, self._records = self._moved_bytes, 0, 0
        return moved_bytes

    def build_map(self, aborted: Sequence[AbortedTxn]) -> Iterator[int]:
        """Read the dirty part and build the map. `aborted`: transactions that overlap it. Raises OSError, InvalidBatch."""
        yield from self._read_dirty(aborted)
        yield from self._mark_latest()

    def _read_dirty(self, aborted: Sequence[AbortedTxn]) -> Iterator[int]:
        request = self._request
        transactions = CleanedTransactions()
        transactions.expect(aborted)
        ends = [*request.segments[1:], request.first_uncleanable_offset]
        for base_offset, end_offset in zip(request.segments, ends, strict=True):
            if end_offset <= request.first_dirty_offset:
                continue
            for buffer, position, header in self._batches(base_offset):
                self.stats.bytes_indexed += header.size_bytes
                if header.last_offset >= request.first_dirty_offset:
                    if not self._index(buffer, position, header, transactions):
                        return
                    self.map.reached(header.last_offset)
                if self._work(header.size_bytes, header.records_count):
                    yield self._end_step()
            self.map.reached(end_offset - 1)
        yield self._end_step()

    def _mark_latest(self) -> Iterator[int]:
        """Turn the map around, if memory allows: so the copying finds the latest records without their keys."""
        start_offset = self._request.first_dirty_offset
        if not self._is_regular or self.end_offset - start_offset > self._request.dedupe_buffer_bytes // LATEST_SHARE:
            return
        latest = LatestOffsets(start_offset, self.end_offset)
        offsets = iter(self.map.offsets())
        while some := list(islice(offsets, MARKED_AT_ONCE)):
            latest.add(some)
            yield 0
        self._cleaner.latest = latest

    def _index(self, buffer: Buffer, position: int, header: BatchHeader, transactions: CleanedTransactions) -> bool:
        """Put a batch's keys into the map. Returns False when that is full."""
        start_offset = self._request.first_dirty_offset
        if header.magic < MAGIC_V2:
            records = list(iter_any_records(buffer, position, header, MAX_LOADED_BYTES))
            self._records += len(records)
            return self.map.put([each.key for each in records], [each.offset for each in records], start_offset)
        if header.is_control:
            transactions.on_marker(buffer, position, header)
            return True
        if transactions.on_data(header) or not header.records_count:
            return True
        batch = read_keys(buffer, position, header)
        base_offset, count = header.base_offset, header.records_count
        offsets: Sequence[int] = range(base_offset, base_offset + count)
        if batch.deltas != _NUMBERS[:count] and batch.deltas != list(range(count)):
            offsets = [base_offset + delta for delta in batch.deltas]
            if header.last_offset_delta + 1 == count:  # as many as there is room for, and not in their places
                self._is_regular = False
        return self.map.put(batch.keys, offsets, start_offset)

    # --- groups ---

    def groups(self) -> list[Sequence[SegmentSizes]]:
        """A job, after `build_map`: group the segments that become one each."""
        stat, request = self._filesystem.stat, self._request
        sizes = [
            SegmentSizes(base_offset, *(stat(self._path(base_offset, each)).size_bytes for each in CLEANED_SUFFIXES[:1]),
                         *(self._index_bytes(base_offset, each) for each in CLEANED_SUFFIXES[1:3]))
            for base_offset in request.segments
            if base_offset < self.end_offset
        ]  # fmt: skip
        return group_segments(
            sizes,
            segment_bytes=request.segment_bytes,
            segment_index_bytes=request.segment_index_bytes,
            first_uncleanable_offset=request.first_uncleanable_offset,
        )

    def _index_bytes(self, base_offset: int, suffix: str) -> int:
        path = self._path(base_offset, suffix)
        return self._filesystem.stat(path).size_bytes if self._filesystem.exists(path) else 0

    def old_marker_horizon_ms(self) -> int:
        """A job: return the time after which segments must have been written for their delete markers of formats before v2 to
        stay."""
        clean = [each for each in self._request.segments if each < self._request.first_dirty_offset]
        return self._modified_ms(clean[-1]) - self._request.delete_retention_ms if clean else 0

    def clean_group(
        self,
        group: Sequence[SegmentSizes],
        aborted: Sequence[AbortedTxn],
        active_producers: Mapping[int, LastRecord],
        old_marker_horizon_ms: int,
        result: list[CleanedSegment],
    ) -> Iterator[int]:
        """The new segment is in `result` when the steps are through. `aborted`: those that overlap the group; the
        producers are those of the log as it is now. Raises OSError, InvalidBatch, SegmentOverflow."""
        cleaner, stats = self._cleaner, self.stats
        cleaner.transactions.expect(aborted)
        cleaner.transactions.kept_aborted.clear()
        copy = SegmentCopy(
            self._filesystem, self._request.directory, group[0].base_offset, self._request.index_interval_bytes
        )
        try:
            for segment in group:
                modified_ms = self._modified_ms(segment.base_offset)
                cleaner.keeps_old_markers = modified_ms > old_marker_horizon_ms
                for buffer, position, header in self._batches(segment.base_offset):
                    cleaned = cleaner.clean(buffer, position, header, active_producers)
                    written_bytes = 0
                    if not copy.holds(header):
                        raise SegmentOverflow(segment.base_offset)
                    if cleaned.fate is CleaningOutcome.COPIED:
                        copy.append(memoryview(buffer)[position : position + header.size_bytes], header)
                        written_bytes = header.size_bytes
                    elif cleaned.content:
                        copy.append(cleaned.content, read_any_header(cleaned.content))
                        written_bytes = len(cleaned.content)
                    stats.bytes_read += header.size_bytes
                    stats.bytes_written += written_bytes
                    stats.records_read += header.records_count
                    stats.records_written += cleaned.records_kept
                    if self._work(header.size_bytes + written_bytes, header.records_count):
                        copy.write()
                        yield self._end_step()
            copy.write()
            yield self._end_step()
            kept = [each for each in cleaner.transactions.kept_aborted if isinstance(each, AbortedTxn)]
            result.append(copy.finish(kept, modified_ms, [segment.base_offset for segment in group]))
        finally:
            copy.close()

    # --- files ---

    def _path(self, base_offset: int, suffix: str) -> str:
        return segment_path(self._request.directory, base_offset, suffix)

    def _modified_ms(self, base_offset: int) -> int:
        return self._filesystem.stat(self._path(base_offset, LOG_SUFFIX)).mtime_ms

    def _batches(self, base_offset: int) -> Iterator[tuple[Buffer, int, BatchHeader]]:
        """Yield (buffer, position in it, header) of every batch of a segment, each whole."""
        path = self._path(base_offset, LOG_SUFFIX)
        file = self._filesystem.open(path, writable=False)
        try:
            yield from batches_of(file, path, max(self._request.io_buffer_bytes // 2, MIN_READ_BYTES))
        finally:
            file.close()
