"""How old a segment is: the largest timestamp of its records, learned without opening it, and when it was written to.

Ten thousand partitions are looked at by retention, and few of their segments are ever read. So their indexes are not
taken into memory for it: the last entry of each index file and the few batches behind it say the same.

Rules: these are jobs, they block.
Invariant: the answer is that of `open_segment`, which is asked whenever the files are not as expected.
Source: Kafka LogSegment.largestTimestamp and maxTimestampAndOffsetSoFar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.records.any_format import read_any_header
from protocol.records.batch import HEADER_BYTES
from protocol.records.invalid import InvalidBatch
from runtime.disk.filesystem import FileSystem
from storage.segments.index import Entry, OffsetIndex, SparseIndex, TimeIndex
from storage.segments.segment import NO_TIMESTAMP, Segment
from storage.segments.segment_files import LOG_SUFFIX, segment_path
from storage.segments.segment_scan import open_segment, scan_tail

AGES_AT_ONCE = 16
"""So many segments are asked for in one job of a queue: who appends waits less than a millisecond for it."""
# Without entries: they know what the files are like.
_OFFSET_INDEX, _TIME_INDEX = OffsetIndex(), TimeIndex()


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """`max_timestamp` is NO_TIMESTAMP when no record has one."""

    max_timestamp: int
    offset_of_max_timestamp: int
    modified_ms: int
    """When the file was last written to."""
    size_bytes: int
    """Of the file, then."""

    @property
    def newest_ms(self) -> int:
        """What retention by time goes by."""
        return self.max_timestamp if self.max_timestamp > NO_TIMESTAMP else self.modified_ms


def segment_ages(filesystem: FileSystem, segments: Sequence[Segment], interval_bytes: int) -> list[SegmentAge]:
    """Raises OSError."""
    return [_segment_age(filesystem, segment, interval_bytes) for segment in segments]


def written_times(filesystem: FileSystem, segments: Sequence[Segment]) -> list[int]:
    """When each was last written to, in ms. Raises OSError."""
    return [_written_ms(filesystem, segment) for segment in segments]


def _written_ms(filesystem: FileSystem, segment: Segment) -> int:
    try:
        return filesystem.stat(segment.path(LOG_SUFFIX)).mtime_ms
    except FileNotFoundError:  # it is to be made yet, or has just been set aside
        return segment.created_ms


def _segment_age(filesystem: FileSystem, segment: Segment, interval_bytes: int) -> SegmentAge:
    directory, base_offset = segment.directory, segment.base_offset
    if segment.knows_timestamps:
        found: tuple[int, int] | None = segment.max_timestamp, segment.offset_of_max_timestamp
    else:
        found = _by_last_entries(filesystem, directory, base_offset)
    if found is None:
        opened = open_segment(filesystem, directory, base_offset, interval_bytes)
        opened.file.close()
        found = opened.max_timestamp, opened.offset_of_max_timestamp
    stat = filesystem.stat(segment.path(LOG_SUFFIX))
    return SegmentAge(*found, stat.mtime_ms, stat.size_bytes)


def _by_last_entries(filesystem: FileSystem, directory: str, base_offset: int) -> tuple[int, int] | None:
    """(largest timestamp, offset of it); None when the files do not tell."""
    indexed = _last_entry(filesystem, _OFFSET_INDEX, directory, base_offset, (0, 0))
    stamped = _last_entry(filesystem, _TIME_INDEX, directory, base_offset, (NO_TIMESTAMP, 0))
    if indexed is None or stamped is None:
        return None
    file = filesystem.open(segment_path(directory, base_offset, LOG_SUFFIX), writable=False)
    try:
        end = file.size()
        if indexed[1] >= end:
            return None
        tail = scan_tail(file, base_offset, position=indexed[1], next_offset=base_offset, end=end)
    finally:
        file.close()
    if tail.problem is not None:
        return None
    if tail.max_timestamp > stamped[0]:
        return tail.max_timestamp, tail.offset_of_max_timestamp
    return stamped[0], base_offset + stamped[1]


def _last_entry(
    filesystem: FileSystem, index: SparseIndex, directory: str, base_offset: int, if_empty: Entry
) -> Entry | None:
    """None when the file is missing or ends in padding. That of a small segment is empty, and is not opened for it."""
    path = segment_path(directory, base_offset, index.suffix)
    entry_bytes = index.entry.size
    try:
        size = filesystem.stat(path).size_bytes
        if not size:
            return if_empty
        if size % entry_bytes:
            return None
        file = filesystem.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        keys, values = index.unpack(file.read_at(entry_bytes, size - entry_bytes))
    finally:
        file.close()
    entry = keys[0], values[0]
    return entry if index.is_entry(*entry) else None


def first_batch_timestamps(filesystem: FileSystem, segments: Sequence[Segment]) -> list[int]:
    """The largest timestamp of each segment's first batch; NO_TIMESTAMP without one. Raises OSError."""
    return [_first_batch_timestamp(filesystem, segment.path(LOG_SUFFIX)) for segment in segments]


def _first_batch_timestamp(filesystem: FileSystem, path: str) -> int:
    file = filesystem.open(path, writable=False)
    try:
        return read_any_header(file.read_at(HEADER_BYTES, 0)).max_timestamp
    except InvalidBatch:
        return NO_TIMESTAMP
    finally:
        file.close()
