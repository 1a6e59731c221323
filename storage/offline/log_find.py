"""`barnabas log find`: records by key, by header or by time, straight from the segments, without a consumer.

    plan(...)  -->  one `Task` a segment, in the order of the answer  -->  scan(task), in any process  -->  `Found`

A batch is decompressed as a whole and searched for the bytes that a wanted record must hold; only where they are, records
are made. With a lower bound of time the time index tells where to begin, and a segment that ends before it is left out.

Rules: blocking; reads only, beside a running broker. A task and what it finds can be sent to another process. Memory: a
window of a file and one batch, decompressed; a task that has found `MAX_MATCHES` stops, and tells where it goes on.
Invariants: an index is believed only where it points at the batch that it names, else the segment is read from its start;
what cannot be read is told, never passed over. What retention, or the cleaner, takes away meanwhile is no such thing.
Source: Kafka TimeIndex, OffsetIndex; what `kafka-console-consumer | grep` is used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, plain_records
from protocol.topic_partition import TopicPartition
from protocol.varint import encode_varint
from runtime.filesystem import Buffer, File, FileSystem
from storage.directories.log_directory import parse_partition_folder, partition_of_folder
from storage.segments.index import CorruptIndex, OffsetIndex, SparseIndex, TimeIndex
from storage.segments.interrupted_swap import segment_file_offset
from storage.segments.segment_files import LOG_SUFFIX, segment_path
from storage.segments.stored_batches import MAX_LOADED_BYTES, CorruptLog, StoredBatch, StoredBatches

MAX_MATCHES = 1000
"""Of one scan."""
_MAX_INDEX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Query:
    """What a record must have; None where anything goes. Times are [from, to) in ms."""

    key: bytes | None = None
    header: tuple[str, bytes | None] | None = None
    """Its name, and its value unless that is None."""
    from_ms: int | None = None
    to_ms: int | None = None
    value_bytes: int = 1024
    """How much of a value is answered."""
    use_index: bool = True

    def matches(self, record: Record) -> bool:
        return (
            (self.key is None or record.key == self.key)
            and (self.from_ms is None or record.timestamp >= self.from_ms)
            and (self.to_ms is None or record.timestamp < self.to_ms)
            and (self.header is None or any(_is_header(self.header, name, value) for name, value in record.headers))
        )

    def needles(self) -> list[bytes]:
        """Bytes that the records of a batch hold somewhere if one of them can match."""
        found: list[bytes] = []
        if self.key is not None:
            found.append(encode_varint(len(self.key)) + self.key)
        if self.header is not None:
            name, value = self.header[0].encode(errors="surrogateescape"), self.header[1]
            found.append(encode_varint(len(name)) + name)
            if value is not None:
                found[-1] += encode_varint(len(value)) + value
        return found


def _is_header(wanted: tuple[str, bytes | None], name: str, value: bytes | None) -> bool:
    return name == wanted[0] and wanted[1] in (None, value)


@dataclass(frozen=True, slots=True)
class Task:
    """One segment to be scanned from `position` on."""

    topic: str
    partition: int
    directory: str
    base_offset: int
    is_last: bool
    """No segment follows: its indexes may be behind."""
    query: Query
    position: int = 0

    @property
    def path(self) -> str:
        return segment_path(self.directory, self.base_offset, LOG_SUFFIX)


@dataclass(frozen=True, slots=True)
class Match:
    """A record that was wanted; `value` may be cut to what the query asked for."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    value_size: int
    headers: list[tuple[str, bytes | None]]
    path: str
    position: int
    """Of its batch."""


@dataclass(slots=True)
class Found:
    """What one scan answers. `following`: there may be more, from there on."""

    matches: list[Match] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    following: Task | None = None
    scanned_bytes: int = 0


# --- planning ---


def plan(
    filesystem: FileSystem,
    paths: Sequence[str],
    query: Query,
    *,
    problem: Callable[[str], None],
    topics: Sequence[str] = (),
    partition: int | None = None,
) -> Iterator[Task]:
    """The segments below `paths`, which are log directories or folders of partitions. `problem` hears of what cannot be
    searched. Raises OSError for one of `paths`."""
    found: list[tuple[TopicPartition, str]] = []
    for path in paths:
        folders = list(_partition_folders(filesystem, path.rstrip("/") or "/"))
        if not folders:
            problem(f"{path}: neither a log directory with partitions nor the folder of one")
        found += folders
    for (topic, number), folder in sorted(found):
        if (topics and topic not in topics) or partition not in (None, number):
            continue
        try:
            names = filesystem.list_directory(folder)
        except FileNotFoundError:
            continue  # its topic was deleted
        except OSError as error:
            problem(f"{folder}: {error.strerror or error}")
            continue
        offsets = [segment_file_offset(name) for name in names if name.endswith(LOG_SUFFIX)]
        known = [offset for offset in offsets if offset is not None]
        for offset in known:
            yield Task(topic, number, folder, offset, offset == known[-1], query)


def _partition_folders(filesystem: FileSystem, path: str) -> Iterator[tuple[TopicPartition, str]]:
    """Of a log directory, those that a broker serves; a folder that was set aside counts when it is named."""
    own = partition_of_folder(filesystem.absolute(path).rpartition("/")[2])
    names = filesystem.list_directory(path)
    if own is not None and any(name.endswith(LOG_SUFFIX) for name in names):
        yield own, path
        return
    for name in names:
        key = parse_partition_folder(name)
        if key is not None and filesystem.is_directory(f"{path}/{name}"):
            yield key, f"{path}/{name}"


# --- scanning ---


def scan(filesystem: FileSystem, task: Task) -> Found:
    """The matches of one segment, a thousand at most."""
    found = Found()
    try:
        file = filesystem.open(task.path, writable=False)
        try:
            _scan_file(filesystem, file, task, found)
        finally:
            file.close()
    except FileNotFoundError:
        pass  # retention, or the cleaner, was faster
    except OSError as error:
        found.problems.append(f"{task.path}: {error.strerror or error}")
    return found


def _scan_file(filesystem: FileSystem, file: File, task: Task, found: Found) -> None:
    query = task.query
    position = task.position
    if not position and query.from_ms is not None and query.use_index:
        indexes = _SegmentIndexes(filesystem, file, task)
        start = indexes.position_of(query.from_ms) if indexes.load() else 0
        if start is None:
            return
        position = start
    batches = StoredBatches(file, position=position)
    needles = query.needles()
    try:
        for batch in batches:
            if query.from_ms is None or batch.header.max_timestamp >= query.from_ms:
                _scan_batch(batch, needles, task, found)
            found.scanned_bytes += batch.size_bytes
            if len(found.matches) >= MAX_MATCHES:
                found.following = replace(task, position=batch.position + batch.size_bytes)
                return
    except CorruptLog as error:
        found.problems.append(f"{task.path}: {error}; the rest of the segment was not searched")
        return
    if batches.trailing_bytes:
        what = f"the last {batches.trailing_bytes} bytes, from position {batches.position} on, are no whole batch"
        found.problems.append(f"{task.path}: {what}, not searched")


def _scan_batch(batch: StoredBatch, needles: Sequence[bytes], task: Task, found: Found) -> None:
    if batch.header.is_control:
        return
    if not batch.is_valid():
        found.problems.append(f"{task.path}: the batch at position {batch.position} has a wrong checksum, not searched")
        return
    try:
        if needles and not batch.is_legacy and not _holds(batch, needles):
            return
        for record in batch.records():
            if task.query.matches(record):
                found.matches.append(_match(record, batch, task))
    except InvalidBatch as error:
        found.problems.append(f"{task.path}: the batch at position {batch.position} cannot be read: {error}")


def _holds(batch: StoredBatch, needles: Sequence[bytes]) -> bool:
    block: Buffer = plain_records(batch.content(), 0, batch.header, MAX_LOADED_BYTES)
    plain = bytes(block)
    return all(needle in plain for needle in needles)


def _match(record: Record, batch: StoredBatch, task: Task) -> Match:
    value = record.value
    return Match(
        task.topic,
        task.partition,
        record.offset,
        record.timestamp,
        record.key,
        None if value is None else value[: task.query.value_bytes],
        -1 if value is None else len(value),
        record.headers,
        task.path,
        batch.position,
    )


# --- the time index ---


class _SegmentIndexes:
    """The indexes of a task's segment, as far as its log bears them out."""

    def __init__(self, filesystem: FileSystem, file: File, task: Task) -> None:
        self._filesystem = filesystem
        self._task = task
        self._batches = StoredBatches(file)
        self._times = TimeIndex()
        self._offsets = OffsetIndex()

    def load(self) -> bool:
        """Whether they are there and in order."""
        try:
            for index in (self._times, self._offsets):
                path = self._path(index)
                if self._filesystem.stat(path).size_bytes > _MAX_INDEX_BYTES:
                    return False
                index.load(self._filesystem.read_bytes(path), keep_writable=False)
        except (CorruptIndex, OSError):
            return False
        return True

    def position_of(self, from_ms: int) -> int | None:
        """Where to begin so that no record of `from_ms` or later is missed; None when the segment has none."""
        last = self._times.last
        if last is None:
            return 0
        if last[0] < from_ms:
            if not self._is_true(last):
                return 0
            return self._log_position(last[1]) if self._task.is_last else None
        before = self._times.floor(from_ms - 1, partial(self._read, self._times))
        return 0 if before is None or not self._is_true(before) else self._log_position(before[1])

    def _is_true(self, entry: tuple[int, int]) -> bool:
        """Whether the log has the batch that this entry of the time index names, with that timestamp."""
        timestamp, relative_offset = entry
        last_offset = self._task.base_offset + relative_offset
        try:
            batch = self._batches.batch_at(self._log_position(relative_offset))
            while batch is not None and batch.header.last_offset < last_offset:
                batch = self._batches.batch_at(batch.position + batch.size_bytes)
        except CorruptLog:
            return False
        return batch is not None and (batch.header.last_offset, batch.header.max_timestamp) == (last_offset, timestamp)

    def _log_position(self, relative_offset: int) -> int:
        """Of a batch at or before this offset."""
        entry = self._offsets.floor(relative_offset, partial(self._read, self._offsets))
        return 0 if entry is None else entry[1]

    def _path(self, index: SparseIndex) -> str:
        return segment_path(self._task.directory, self._task.base_offset, index.suffix)

    def _read(self, index: SparseIndex, length: int, position: int) -> Buffer:
        file = self._filesystem.open(self._path(index), writable=False)
        try:
            return file.read_at(length, position)
        finally:
            file.close()
