"""One segment of a log: `<base offset, 20 digits>.log` with its `.index` and `.timeindex`.

A segment is closed, then opened when first touched: a blocking job reads its indexes (`open_segment`) and opens the
`.log`; index files are open only while something is read from or written to them.

Rules: methods run on the event loop and do no IO but `File.read_hot`; what has to wait for the disk is raised as
`Cold`, whose job the caller runs in a thread before it tries again.
Invariants: `written_bytes <= end_bytes`; readers see the first, writers extend the second; the indexes describe no
batch behind `end_bytes`.
Source: Kafka LogSegment, FileRecords; KIP-33 (time index), KIP-106 (roll by record timestamps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Protocol

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader
from runtime.disk.filesystem import Buffer, File, FileSystem
from runtime.randomness import Randomness
from storage.segments.index import CLOSED_OFFSET_INDEX, CLOSED_TIME_INDEX, OffsetIndex, SparseIndex, TimeIndex
from storage.segments.segment_files import LOG_SUFFIX, TXN_INDEX_SUFFIX, read_file, segment_path
from storage.segments.txn_index import FoundTransactions, TxnIndex, find_in

NO_TIMESTAMP = -1
NOTHING_ABORTED = FoundTransactions([], is_complete=False)
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
MOST_RECORDS = 1 << 30
"""More than a segment, of at most 2 GiB, can have."""

BATCH_PREFIX_BYTES = 27
"""Of a batch: base offset, length, epoch, magic, CRC, attributes, last offset delta."""
MIN_BATCH_BYTES = 61
MAGIC_V2 = 2
MIN_LENGTH = 14  # of a message of format v0 without key and value, the smallest that ever was
LENGTH_OVERHEAD_BYTES = 12

# Headers are looked for in pieces of this size: an index entry is at most one interval (4 KiB) and one batch away.
_WALK_BYTES = 8192

# A read that waits anyway leaves longer pieces to a thread at once: trying them on the loop would copy what is hot of them in
# its time, and have the kernel read ahead there what is not.
LONG_READ_BYTES = 128 * 1024

# How many such pieces are read to find where the batches of a piece end that is not read.
_MOST_PIECES_BEFORE_AN_END = 8

# Base offset, length, magic, last offset delta. A message of before v2 has its last offset in the place of the first,
# and no delta; the smallest is a byte shorter than this.
_unpack_batch_prefix = Struct(">qi4xB6xi").unpack_from


FetchKey = tuple[str, "Segment", int, int]
"""(suffix, segment, position, length) of a read. Another segment may take the name of one that is being read."""


class Cold(Exception):
    """The bytes are not in memory: `job` brings them, in a thread; then the same read, told of them, will succeed."""

    def __init__(self, segment: Segment, key: FetchKey, job: Callable[[], Buffer] | None) -> None:
        super().__init__()
        self.segment = segment
        self.key = key
        self.job = job
        """None: the segment itself has to be opened."""


class RollLimits(Protocol):
    """The topic settings that end a segment (see `config.topic.LogConfig`)."""

    @property
    def segment_bytes(self) -> int: ...

    @property
    def segment_index_bytes(self) -> int: ...

    @property
    def index_interval_bytes(self) -> int: ...

    @property
    def roll_ms(self) -> int: ...

    @property
    def segment_jitter_ms(self) -> int: ...


class Age(Protocol):
    """What is learned of a segment without opening it (see `storage.segments.segment_age`)."""

    @property
    def max_timestamp(self) -> int: ...

    @property
    def offset_of_max_timestamp(self) -> int: ...


class SegmentReader:
    """Reads of one attempt: from memory, or from what earlier attempts had to wait for (`fetched`)."""

    __slots__ = ("_filesystem", "fetched")

    def __init__(self, filesystem: FileSystem, fetched: dict[FetchKey, Buffer] | None = None) -> None:
        self._filesystem = filesystem
        self.fetched = fetched

    def log_bytes(
        self, segment: Segment, length: int, position: int, at_least: int, *, may_be_hot: bool = True
    ) -> Buffer:
        """Up to `length` bytes of the `.log`, at least `at_least`; without `may_be_hot` a thread is to read them anyway."""
        key = (LOG_SUFFIX, segment, position, length)
        fetched = self.fetched
        if fetched is not None and key in fetched:
            buffer: Buffer | None = fetched[key]
            assert buffer is not None
            if len(buffer) < at_least:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{segment.path(LOG_SUFFIX)} ends before {position + at_least} bytes.",
                )
            return buffer
        file = segment.file
        if file is None:
            raise Cold(segment, key, None)
        is_for_a_thread = not may_be_hot or (fetched is not None and length >= LONG_READ_BYTES)
        buffer = None if is_for_a_thread else file.read_hot(length, position)
        if buffer is None or len(buffer) < at_least:
            raise Cold(segment, key, partial(file.read_at, length, position))
        return buffer

    def index_bytes(self, segment: Segment, index: SparseIndex, length: int, position: int) -> Buffer:
        key = (index.suffix, segment, position, length)
        fetched = self.fetched
        if fetched is not None and key in fetched:
            return fetched[key]
        raise Cold(segment, key, partial(read_file, self._filesystem, segment.path(index.suffix), length, position))

    def txn_index_bytes(self, segment: Segment, index: TxnIndex) -> Buffer:
        """All that the `.txnindex` holds."""
        if index.content is not None:
            return index.content
        key = (TXN_INDEX_SUFFIX, segment, 0, 0)
        fetched = self.fetched
        if segment.is_awaited:
            raise Cold(segment, key, None)  # its files are about to have their names
        if fetched is None or key not in fetched:
            path, length = segment.path(TXN_INDEX_SUFFIX), index.size_bytes
            raise Cold(segment, key, partial(read_file, self._filesystem, path, length, 0))
        index.install(fetched[key])
        return fetched[key]


class Segment:
    """One segment. `file` is None while it is closed."""

    __slots__ = (
        "base_offset",
        "bytes_since_index_entry",
        "close_when_unpinned",
        "created_ms",
        "directory",
        "end_bytes",
        "file",
        "first_timestamp",
        "is_awaited",
        "is_removed",
        "knows_timestamps",
        "max_timestamp",
        "name_is_durable",
        "offset_index",
        "offset_of_max_timestamp",
        "pins",
        "roll_jitter_ms",
        "time_index",
        "txn_index",
        "written_bytes",
    )

    def __init__(
        self, directory: str, base_offset: int, *, size_bytes: int, created_ms: int, roll_jitter_ms: int = 0
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.written_bytes = size_bytes
        self.end_bytes = size_bytes
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.file: File | None = None
        # A queued job opens or creates its files.
        self.is_awaited = False
        # False until it was opened once: what it knows of timestamps comes from its files.
        self.knows_timestamps = False
        # The folder was flushed since the files were made, so that they are found after a loss of power.
        self.name_is_durable = False
        # The number of threads, and of ranges in flight, that use `file`: it is closed when they have finished.
        self.pins = 0
        self.close_when_unpinned = False
        # It was removed from its log, or its folder is being renamed: its files are not opened any more.
        self.is_removed = False
        self.offset_index: OffsetIndex = CLOSED_OFFSET_INDEX
        self.time_index: TimeIndex = CLOSED_TIME_INDEX
        # None as long as the segment holds no abort marker: there is no file then.
        self.txn_index: TxnIndex | None = None
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp = NO_TIMESTAMP
        self.bytes_since_index_entry = 0

    def __repr__(self) -> str:
        return f"<Segment {self.path(LOG_SUFFIX)} {self.written_bytes} bytes>"

    def path(self, suffix: str) -> str:
        return segment_path(self.directory, self.base_offset, suffix)

    # --- opening ---

    def begin(self) -> None:
        """Note that the segment is new: its files have nothing to be read first."""
        self.offset_index, self.time_index = OffsetIndex(), TimeIndex()
        self.knows_timestamps = True

    def install(self, opened: OpenedSegment) -> None:
        """Take over what a job has opened."""
        assert self.file is None
        self.file = opened.file
        self.adopt(opened)

    def adopt(self, opened: OpenedSegment) -> None:
        """Take over the state in the files, but not the open file."""
        self.offset_index = opened.offset_index
        self.time_index = opened.time_index
        self.first_timestamp = opened.first_timestamp
        self.max_timestamp = opened.max_timestamp
        self.offset_of_max_timestamp = opened.offset_of_max_timestamp
        self.bytes_since_index_entry = opened.bytes_since_index_entry
        self.knows_timestamps = True

    def learn_age(self, age: Age) -> None:
        """Take over what the files of a closed segment say of its timestamps."""
        if not self.knows_timestamps:
            self.max_timestamp = age.max_timestamp
            self.offset_of_max_timestamp = age.offset_of_max_timestamp
            self.knows_timestamps = True

    def release(self) -> File | None:
        """Close the segment in memory; returns the file, which the caller closes in a thread.

        Its indexes are in its files, and are read again when it is opened.
        """
        assert not self.pins
        file, self.file = self.file, None
        self.offset_index, self.time_index = CLOSED_OFFSET_INDEX, CLOSED_TIME_INDEX
        if self.txn_index is not None:
            self.txn_index.unload()
        return file

    # --- writing ---

    def should_roll(
        self, limits: RollLimits, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: int, batches: int = 1
    ) -> bool:
        """Whether one batch, or several that come together, must begin the next segment."""
        # A segment that holds nothing never rolls for its size, its age or its indexes: what is larger than a segment has
        # one to itself, and so has each batch where the indexes may have no entry at all.
        if self.end_bytes > 0:
            if self.end_bytes > limits.segment_bytes - size_bytes or self._has_no_room_in_index(
                limits.segment_index_bytes, entries_of(batches, size_bytes, limits)
            ):
                return True
            if self.first_timestamp >= 0 and max_timestamp >= 0:
                age_ms = max_timestamp - self.first_timestamp
            else:
                age_ms = now_ms - self.created_ms
            if age_ms > limits.roll_ms - self.roll_jitter_ms:
                return True
        return last_offset - self.base_offset > MAX_RELATIVE_OFFSET

    def _has_no_room_in_index(self, index_bytes: int, entries: int) -> bool:
        return (
            self.offset_index.entries_count + entries > index_bytes // OffsetIndex.entry.size
            or self.time_index.entries_count + entries >= index_bytes // TimeIndex.entry.size
        )

    def note_append(
        self, size_bytes: int, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int, interval_bytes: int
    ) -> bool:
        """Extend the segment by bytes placed at `end_bytes`, and index them when the interval is full. Returns whether an entry
        was added."""
        position = self.end_bytes
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = offset_of_max_timestamp
        self.end_bytes = position + size_bytes
        if self.bytes_since_index_entry <= interval_bytes:
            self.bytes_since_index_entry += size_bytes
            return False
        self.offset_index.append(last_offset - self.base_offset, position)
        self.note_max_timestamp()
        self.bytes_since_index_entry = size_bytes
        return True

    def note_appended(self, headers: Sequence[BatchHeader], max_timestamp: int, interval_bytes: int) -> bool:
        """Like `note_append` for several batches, with the largest timestamp of all: each is indexed by itself, as in Kafka,
        otherwise a lookup of one would read all of them."""
        is_first, has_new_entry = self.end_bytes == 0, False
        for header in headers:
            last_offset = header.last_offset
            has_new_entry |= self.note_append(
                header.size_bytes, last_offset, header.max_timestamp, last_offset, interval_bytes
            )
        if is_first:
            self.first_timestamp = max_timestamp
        return has_new_entry

    def note_max_timestamp(self) -> None:
        """Put the largest timestamp into the time index, unless it is there."""
        last = self.time_index.last
        relative = self.offset_of_max_timestamp - self.base_offset
        if self.max_timestamp > (NO_TIMESTAMP if last is None else last[0]) and relative <= MAX_RELATIVE_OFFSET:
            self.time_index.append(self.max_timestamp, relative)

    # --- reading ---

    def indexed_position(self, offset: int, reader: SegmentReader) -> int:
        """A position at or before the batch that holds `offset`."""
        if self.file is None:
            raise Cold(self, (LOG_SUFFIX, self, 0, 0), None)
        index = self.offset_index
        entry = index.floor(offset - self.base_offset, partial(reader.index_bytes, self, index))
        return 0 if entry is None else entry[1]

    def position_of(self, offset: int, reader: SegmentReader) -> int:
        """Where the first batch begins whose last offset is at or above `offset`; `written_bytes` when none is."""
        position = self.indexed_position(offset, reader)
        end = self.written_bytes
        while position < end:
            left = end - position
            chunk = reader.log_bytes(self, min(_WALK_BYTES, left), position, min(BATCH_PREFIX_BYTES, left))
            if left < BATCH_PREFIX_BYTES:
                chunk = bytes(chunk).ljust(BATCH_PREFIX_BYTES, b"\x00")
            at, last_at = 0, len(chunk) - BATCH_PREFIX_BYTES
            while at <= last_at:
                base_offset, length, magic, last_offset_delta = _unpack_batch_prefix(chunk, at)
                if base_offset + (last_offset_delta if magic >= MAGIC_V2 else 0) >= offset:
                    return position + at
                at += LENGTH_OVERHEAD_BYTES + check_length(self, length, position + at)
            position += at
        return end

    def find_aborted(self, start_offset: int, upper_bound_offset: int, reader: SegmentReader) -> FoundTransactions:
        """What the transaction index knows of [start_offset, upper_bound_offset)."""
        if self.txn_index is None:
            return NOTHING_ABORTED
        return find_in(reader.txn_index_bytes(self, self.txn_index), start_offset, upper_bound_offset)

    def upper_bound_offset(self, position: int, size_bytes: int, reader: SegmentReader) -> int | None:
        """An offset behind the `size_bytes` bytes at `position`, as near as the index knows one; None when it knows none."""
        index = self.offset_index
        entry = index.ceiling_by_value(position + size_bytes, partial(reader.index_bytes, self, index))
        return None if entry is None else self.base_offset + entry[0]

    def end_of_whole_batches(self, chunk: Buffer, position: int, reader: SegmentReader) -> tuple[int, int] | None:
        """Of a piece read at `position`: (offset behind its last whole batch, position behind it). Where the index leads to a
        batch that the piece has only the beginning of: (its base offset, its position), which the next read begins with.

        None when that would take long or wait for the disk: it only serves to spare the next read a lookup.
        """
        end = len(chunk)
        index = self.offset_index
        at = 0
        try:
            entry = index.floor_by_value(position + end, partial(reader.index_bytes, self, index))
        except Cold:
            entry = None
            if end > 256 * 1024:
                return None
        if entry is not None and entry[1] > position:
            at = entry[1] - position
        found: tuple[int, int] | None = None
        while at + BATCH_PREFIX_BYTES <= end:
            start = at
            base_offset, length, magic, last_offset_delta = _unpack_batch_prefix(chunk, start)
            at += LENGTH_OVERHEAD_BYTES + check_length(self, length, position + start)
            if at > end:
                if found is None and magic >= MAGIC_V2:
                    found = (base_offset, position + start)
                break
            found = (base_offset + (last_offset_delta if magic >= MAGIC_V2 else 0) + 1, position + at)
        return found

    def end_of_batches_before(self, position: int, end: int, reader: SegmentReader) -> tuple[int, int] | None:
        """Like `end_of_whole_batches` for a piece from `position` to `end` that is not read: a few headers at its end are.
        Where the index is coarse, the batch found may not be the last one."""
        index = self.offset_index
        found: tuple[int, int] | None = None
        try:
            entry = index.floor_by_value(end, partial(reader.index_bytes, self, index))
            at = position if entry is None else max(entry[1], position)
            for _ in range(_MOST_PIECES_BEFORE_AN_END):
                if at + BATCH_PREFIX_BYTES > end:
                    break
                piece = reader.log_bytes(self, min(_WALK_BYTES, end - at), at, BATCH_PREFIX_BYTES)
                next_found = self._walk_before(piece, at, end, found)
                if next_found is None or next_found[1] <= at:
                    return next_found or found
                found = next_found
                at = found[1]
        except Cold:
            pass
        return found

    def _walk_before(
        self, piece: Buffer, position: int, end: int, found: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        """Walk over the headers in `piece`, read at `position`, of batches that end at or before `end`; `found` is the end of
        the one before."""
        at, last_at = 0, len(piece) - BATCH_PREFIX_BYTES
        while at <= last_at:
            start = at
            base_offset, length, magic, last_offset_delta = _unpack_batch_prefix(piece, start)
            at += LENGTH_OVERHEAD_BYTES + check_length(self, length, position + start)
            if position + at > end:
                if found is None and magic >= MAGIC_V2:
                    found = (base_offset, position + start)
                break
            found = (base_offset + (last_offset_delta if magic >= MAGIC_V2 else 0) + 1, position + at)
        return found


def entries_of(batches: int, size_bytes: int, limits: RollLimits) -> int:
    """Return the maximum number of index entries for that many batches."""
    return min(batches, size_bytes // (limits.index_interval_bytes + 1) + 1)


def fit_one_segment(batches: int, size_bytes: int, limits: RollLimits) -> bool:
    """Whether the indexes of a new segment have room for that many batches; a single batch always fits."""
    return entries_of(batches, size_bytes, limits) <= max(limits.segment_index_bytes // TimeIndex.entry.size - 1, 1)


def full_bytes(segment_bytes: int, max_batch_bytes: int) -> int:
    """Return the size above which a segment counts as finished, because the next batch had no room in it."""
    return segment_bytes - min(max_batch_bytes, segment_bytes // 2)


def rolls_at(log_end_offset: int, first_offset: int, last_offset: int) -> int:
    """Where a segment begins that is rolled for batches: where the log ends, also when they leave a gap behind it, as what a
    follower copies of a compacted log does. A gap inside of a segment is never taken for a tear, one between two may be (see
    `storage.log.loading`). Of a gap that is wider than indexes can tell, which no tear is, the segment begins behind."""
    return log_end_offset if last_offset - log_end_offset <= MAX_RELATIVE_OFFSET else first_offset


def check_length(segment: Segment, length: int, position: int) -> int:
    """Return `length`, read from a batch, if a batch can have it; with any other value a walk would not end."""
    if length < MIN_LENGTH:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{segment.path(LOG_SUFFIX)} holds no batch at position {position}."
        )
    return length


def check_fits(segment: Segment, size_bytes: int, position: int) -> None:
    """Check that a batch can be that large, before memory is allocated for a damaged length."""
    if size_bytes > segment.written_bytes - position:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{segment.path(LOG_SUFFIX)} has no room for a batch of {size_bytes} bytes at position {position}.",
        )


def random_roll_jitter_ms(limits: RollLimits, randomness: Randomness) -> int:
    """How much earlier than `segment.ms` a segment rolls."""
    jitter_ms = min(limits.segment_jitter_ms, limits.roll_ms)
    return randomness.randrange(0, jitter_ms) if jitter_ms > 0 else 0


@dataclass(slots=True)
class OpenedSegment:
    """What opening found. `first_timestamp` is the largest timestamp of the first batch; `problem`, why the walk over
    the batches behind the last index entry did not reach the end; `has_new_indexes`, those in the files were missing or
    bad."""

    file: File
    size_bytes: int
    next_offset: int
    offset_index: OffsetIndex
    time_index: TimeIndex
    first_timestamp: int
    max_timestamp: int
    offset_of_max_timestamp: int
    bytes_since_index_entry: int
    problem: str | None
    has_new_indexes: bool = False
