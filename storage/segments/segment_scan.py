"""Walking a segment's batches, or messages of the formats before them: to rebuild what is derived from them, and to find
where a log really ends.

After an unclean stop everything from the recovery point on is walked with its checksums: the first byte that is no
valid batch ends the log. After a clean one only the bytes behind the last index entry are walked, by their headers.

Rules: blocking functions of a file and a byte range that loop over batches; they touch nothing else, so that they can
run in a thread or in a worker process. Nothing is truncated here: the caller decides about what lies behind `end_position`.
Invariants: everything before `end_position` is whole batches with rising offsets.
Source: Kafka LogSegment.recover.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from protocol.records.any_format import SMALLEST_MESSAGE_BYTES, any_crc_is_valid, read_any_header
from protocol.records.batch import BatchHeader, InvalidBatch
from runtime.disk.filesystem import Buffer, File, FileSystem
from storage.segments.index import CorruptIndex, OffsetIndex, TimeIndex
from storage.segments.segment import (
    LENGTH_OVERHEAD_BYTES,
    MAX_RELATIVE_OFFSET,
    MIN_BATCH_BYTES,
    NO_TIMESTAMP,
    OpenedSegment,
)
from storage.segments.segment_files import LOG_SUFFIX, segment_path, write_index

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1024 * 1024
_STEP_BATCHES = 1_000  # some milliseconds

OnBatch = Callable[[BatchHeader, Buffer, int], None]
"""`on_batch(header, buffer, position of the batch in buffer)`"""


@dataclass(slots=True)
class SegmentScan:
    """What a walk found. `problem` says why it ended before the file did."""

    end_position: int
    next_offset: int
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max_timestamp: int = -1
    first_timestamp: int = NO_TIMESTAMP
    bytes_since_index_entry: int = 0
    problem: str | None = None
    overflows: bool = False
    """Offsets are further from the base offset than an index can tell: see `storage.segments.segment_split`."""
    offset_index: OffsetIndex = field(default_factory=OffsetIndex)
    time_index: TimeIndex = field(default_factory=TimeIndex)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """(leader epoch, offset of its first batch), rising."""


def scan_segment(
    file: File,
    base_offset: int,
    *,
    interval_bytes: int,
    check_crc: bool,
    on_batch: OnBatch | None = None,
) -> SegmentScan:
    """Walk the whole segment and build its indexes. Raises OSError."""
    scan = SegmentScan(end_position=0, next_offset=base_offset, offset_of_max_timestamp=base_offset)
    indexed_position = 0

    def visit(header: BatchHeader, buffer: Buffer, at: int) -> None:
        nonlocal indexed_position
        position = scan.end_position
        _note_timestamp(scan, header, position)
        last_offset = header.last_offset
        if position - indexed_position > interval_bytes and not scan.overflows:
            scan.offset_index.append(last_offset - base_offset, position)
            last = scan.time_index.last
            if scan.max_timestamp > (NO_TIMESTAMP if last is None else last[0]):
                scan.time_index.append(scan.max_timestamp, scan.offset_of_max_timestamp - base_offset)
            indexed_position = position
        epoch = header.partition_leader_epoch
        if epoch >= 0 and (not scan.epochs or epoch > scan.epochs[-1][0]):
            scan.epochs.append((epoch, header.base_offset))
        if on_batch is not None:
            on_batch(header, buffer, at)

    walk(file, base_offset, scan, file.size(), check_crc=check_crc, visit=visit)
    scan.bytes_since_index_entry = scan.end_position - indexed_position
    return scan


def scan_tail(file: File, base_offset: int, *, position: int, next_offset: int, end: int) -> SegmentScan:
    """Walk the headers from `position`, an indexed batch, to `end`."""
    scan = SegmentScan(end_position=position, next_offset=next_offset, offset_of_max_timestamp=base_offset)
    walk(
        file, base_offset, scan, end, check_crc=False,
        visit=lambda header, buffer, at: _note_timestamp(scan, header, scan.end_position),
    )  # fmt: skip
    scan.bytes_since_index_entry = scan.end_position - position
    return scan


def _note_timestamp(scan: SegmentScan, header: BatchHeader, position: int) -> None:
    if position == 0:
        scan.first_timestamp = header.max_timestamp
    if header.max_timestamp > scan.max_timestamp:
        scan.max_timestamp = header.max_timestamp
        scan.offset_of_max_timestamp = header.last_offset


def walk(file: File, base_offset: int, scan: SegmentScan, end: int, *, check_crc: bool, visit: OnBatch) -> None:
    """Visit each whole, valid batch from `scan.end_position` to `end`; `scan` moves along behind the visit."""
    for _ in walk_in_steps(file, base_offset, scan, end, check_crc=check_crc, visit=visit):
        pass


def walk_in_steps(
    file: File, base_offset: int, scan: SegmentScan, end: int, *, check_crc: bool, visit: OnBatch
) -> Iterator[None]:
    """The same, step by step: what is read at once, and of that 1,000 batches."""
    chunk: Buffer = b""
    chunk_position = scan.end_position
    left_in_step = _STEP_BATCHES
    while scan.end_position < end:
        position = scan.end_position
        at = position - chunk_position
        needed = SMALLEST_MESSAGE_BYTES
        if len(chunk) - at >= LENGTH_OVERHEAD_BYTES:
            needed = max(needed, LENGTH_OVERHEAD_BYTES + int.from_bytes(chunk[at + 8 : at + 12], "big"))
        if position + needed > end:
            scan.problem = f"the last {end - position} bytes are no whole batch"
            return
        if len(chunk) - at < needed or not left_in_step:
            yield
            left_in_step = _STEP_BATCHES
        if len(chunk) - at < needed:
            chunk, chunk_position, at = (
                file.read_at(min(max(needed, _CHUNK_BYTES), end - position), position),
                position,
                0,
            )
            if len(chunk) < needed:
                scan.problem = f"the file ends at {position + len(chunk)}"
                return
            if LENGTH_OVERHEAD_BYTES + int.from_bytes(chunk[8:12], "big") > needed:
                continue  # now that its length is known
        left_in_step -= 1
        problem = _step(chunk, at, base_offset, scan, check_crc=check_crc, visit=visit)
        if problem is not None:
            scan.problem = f"position {position}: {problem}"
            return


def _step(
    chunk: Buffer, at: int, base_offset: int, scan: SegmentScan, *, check_crc: bool, visit: OnBatch
) -> str | None:
    try:
        header = read_any_header(chunk, at)
    except InvalidBatch as error:
        return str(error)
    if at + header.size_bytes > len(chunk):
        return f"batch of {header.size_bytes} bytes"
    if header.base_offset < scan.next_offset:
        return f"offset {header.base_offset} after {scan.next_offset - 1}"
    if header.last_offset_delta < 0:
        return f"last offset {header.last_offset} does not belong to segment {base_offset}"
    overflows = header.last_offset - base_offset > MAX_RELATIVE_OFFSET
    if (check_crc or overflows) and not any_crc_is_valid(chunk, at, header):
        return "wrong CRC"
    scan.overflows |= overflows
    visit(header, chunk, at)
    scan.end_position += header.size_bytes
    scan.next_offset = header.last_offset + 1
    return None


def open_and_mend_segment(
    filesystem: FileSystem, directory: str, base_offset: int, interval_bytes: int
) -> OpenedSegment:
    """`open_segment` for who has the folder to himself: indexes that had to be made again are written."""
    opened = open_segment(filesystem, directory, base_offset, interval_bytes)
    if opened.has_new_indexes:
        try:
            write_indexes(filesystem, directory, base_offset, opened)
        except BaseException:
            opened.file.close()
            raise
    return opened


def open_segment(filesystem: FileSystem, directory: str, base_offset: int, interval_bytes: int) -> OpenedSegment:
    """Open a segment that recovery has been through, with its indexes; those that are missing or bad are made again.

    Nothing is written: another segment may take the names of this one at any time.
    """
    file = filesystem.open(segment_path(directory, base_offset, LOG_SUFFIX))
    try:
        size = file.size()
        has_new_indexes = False
        try:
            offset_index, time_index = _load_indexes(filesystem, directory, base_offset, size)
        except (CorruptIndex, FileNotFoundError) as error:
            logger.warning(
                "indexes rebuilt: path=%s error=%s", segment_path(directory, base_offset, LOG_SUFFIX), str(error)
            )
            scan = scan_segment(file, base_offset, interval_bytes=interval_bytes, check_crc=False)
            offset_index, time_index = scan.offset_index, scan.time_index
            has_new_indexes = True
        indexed = (base_offset, 0) if offset_index.last is None else offset_index.last
        tail = scan_tail(file, base_offset, position=indexed[1], next_offset=base_offset, end=size)
        opened = OpenedSegment(
            file=file,
            size_bytes=size,
            next_offset=tail.next_offset,
            offset_index=offset_index,
            time_index=time_index,
            first_timestamp=NO_TIMESTAMP,
            max_timestamp=tail.max_timestamp,
            offset_of_max_timestamp=tail.offset_of_max_timestamp,
            bytes_since_index_entry=tail.bytes_since_index_entry,
            problem=tail.problem,
            has_new_indexes=has_new_indexes,
        )
        if size:
            try:
                opened.first_timestamp = read_any_header(file.read_at(MIN_BATCH_BYTES, 0), 0).max_timestamp
            except InvalidBatch as error:
                opened.problem = f"position 0: {error}"
        if time_index.last is not None and time_index.last[0] >= tail.max_timestamp:
            opened.max_timestamp = time_index.last[0]
            opened.offset_of_max_timestamp = base_offset + time_index.last[1]
        return opened
    except BaseException:
        file.close()
        raise


def write_indexes(filesystem: FileSystem, directory: str, base_offset: int, scan: SegmentScan | OpenedSegment) -> None:
    """Replace both index files by what a walk over the whole segment built."""
    for index in (scan.offset_index, scan.time_index):
        write_index(filesystem, segment_path(directory, base_offset, index.suffix), *index.unwritten())


def _load_indexes(
    filesystem: FileSystem, directory: str, base_offset: int, size_bytes: int
) -> tuple[OffsetIndex, TimeIndex]:
    offset_index, time_index = OffsetIndex(), TimeIndex()
    offset_index.load(filesystem.read_bytes(segment_path(directory, base_offset, OffsetIndex.suffix)))
    if offset_index.last is not None and offset_index.last[1] >= size_bytes:
        raise CorruptIndex(f"entry {offset_index.last} lies behind the {size_bytes} bytes of the segment")
    time_index.load(filesystem.read_bytes(segment_path(directory, base_offset, TimeIndex.suffix)))
    return offset_index, time_index
