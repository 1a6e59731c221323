"""New segments made of old ones: reading batch by batch, and the `.cleaned` files of what is written.

Rules: blocking; nothing in the folder is touched but `.cleaned` files. `storage.segments.segment_swap` exchanges the segments.
Invariants: every batch is read with its checksum; the `.cleaned` files are on the disk when `SegmentCopy.finish` ends.
Source: Kafka Cleaner.cleanInto, LogSegment.append, FileRecords.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from protocol.errors import ErrorCode
from protocol.records.any_format import any_crc_is_valid, iter_any_headers
from protocol.records.batch import BatchHeader
from protocol.records.invalid import InvalidBatch
from runtime.disk.filesystem import Buffer, File, FileSystem
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.interrupted_swap import CLEANED_SUFFIX
from storage.segments.segment import LENGTH_OVERHEAD_BYTES, MAX_RELATIVE_OFFSET, Segment
from storage.segments.segment_files import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_path, sync_file
from storage.segments.txn_index import AbortedTxn, encode_transactions

CLEANED_SUFFIXES = (LOG_SUFFIX, OffsetIndex.suffix, TimeIndex.suffix, TXN_INDEX_SUFFIX)
MAX_SEGMENT_BYTES = 0x7FFFFFFF
# A step ends behind the batch that takes it over this.
STEP_BYTES = 1024 * 1024


class SegmentOverflow(Exception):
    """Offsets in the segment at `base_offset` are further from it than an index can tell (KAFKA-6264): see
    `storage.segments.segment_split`."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(f"offsets of the segment at {base_offset} are more than {MAX_RELATIVE_OFFSET} above that")
        self.base_offset = base_offset


@dataclass(slots=True)
class CleanedSegment:
    """A new segment whose files are complete, but for their names."""

    base_offset: int
    replaced: Sequence[int]
    """Base offsets of the segments it stands for."""
    size_bytes: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    txn_index_bytes: int = 0
    modified_ms: int = 0
    suffixes: list[str] = field(default_factory=list)
    """Of the files it has."""


def batches_of(file: File, path: str, read_bytes: int) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """Every batch of a file, read in pieces of `read_bytes`, a larger one in a piece of its own. Raises InvalidBatch, also when
    the file has become shorter meanwhile, by a truncation for example."""
    position, end = 0, file.size()
    needed = read_bytes
    while position < end:
        length = min(needed, end - position)
        chunk = file.read_at(length, position)
        if len(chunk) < length:
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{path} has become shorter than {position + length} bytes.")
        needed = read_bytes
        behind = 0
        for at, header in iter_any_headers(chunk):
            if not any_crc_is_valid(chunk, at, header):
                raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{path} has a wrong CRC at position {position + at}.")
            behind = at + header.size_bytes
            yield chunk, at, header
        if not behind:
            needed = LENGTH_OVERHEAD_BYTES + int.from_bytes(chunk[8:12], "big")
            if needed <= len(chunk) or needed > end - position:
                raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{path} holds no whole batch at position {position}.")
        position += behind


class SegmentCopy:
    """The `.cleaned` files of one new segment."""

    def __init__(self, filesystem: FileSystem, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._interval_bytes = index_interval_bytes
        self._segment = Segment(directory, base_offset, size_bytes=0, created_ms=0)
        self._segment.begin()
        self._unwritten = bytearray()
        self._written_bytes = 0
        for suffix in CLEANED_SUFFIXES:  # what a cleaning that failed may have left
            filesystem.unlink(self._path(suffix))
        self._file = filesystem.open(self._path(LOG_SUFFIX), create=True)

    def _path(self, suffix: str) -> str:
        return segment_path(self._directory, self._segment.base_offset, suffix) + CLEANED_SUFFIX

    def holds(self, header: BatchHeader) -> bool:
        """Whether a batch with such offsets can be in this segment."""
        return header.last_offset - self._segment.base_offset <= MAX_RELATIVE_OFFSET

    def append(self, content: Buffer, header: BatchHeader) -> None:
        segment = self._segment
        if segment.end_bytes + len(content) > MAX_SEGMENT_BYTES:
            raise InvalidBatch(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{self._path(LOG_SUFFIX)} would be larger than a segment can be."
            )
        last_offset = header.last_offset
        segment.note_append(len(content), last_offset, header.max_timestamp, last_offset, self._interval_bytes)
        self._unwritten += content

    def write(self) -> None:
        if self._unwritten:
            self._file.write_at((self._unwritten,), self._written_bytes)
            self._written_bytes += len(self._unwritten)
            self._unwritten = bytearray()

    def finish(self, aborted: Sequence[AbortedTxn], modified_ms: int, replaced: Sequence[int]) -> CleanedSegment:
        """Everything is on the disk when this returns."""
        segment, filesystem = self._segment, self._filesystem
        segment.note_max_timestamp()
        contents = {index.suffix: index.unwritten()[0] for index in (segment.offset_index, segment.time_index)}
        if aborted:
            contents[TXN_INDEX_SUFFIX] = encode_transactions(aborted)
        for suffix, content in contents.items():
            filesystem.write_bytes(self._path(suffix), content)
            sync_file(filesystem, self._path(suffix))
        self._file.sync()
        for suffix in (LOG_SUFFIX, *contents):
            filesystem.set_mtime(self._path(suffix), modified_ms)
        filesystem.sync_directory(self._directory)
        return CleanedSegment(
            base_offset=segment.base_offset,
            replaced=replaced,
            size_bytes=segment.end_bytes,
            first_timestamp=segment.first_timestamp,
            max_timestamp=segment.max_timestamp,
            offset_of_max_timestamp=segment.offset_of_max_timestamp,
            txn_index_bytes=len(contents.get(TXN_INDEX_SUFFIX, b"")),
            modified_ms=modified_ms,
            suffixes=[LOG_SUFFIX, *contents],
        )

    def close(self) -> None:
        self._file.close()


def discard_cleaned(filesystem: FileSystem, directory: str, base_offsets: Sequence[int]) -> None:
    """A job: remove what an unfinished copy left."""
    for base_offset in base_offsets:
        for suffix in CLEANED_SUFFIXES:
            filesystem.unlink(segment_path(directory, base_offset, suffix) + CLEANED_SUFFIX)
