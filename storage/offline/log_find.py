"""`barnabas log find`: finds records by key, header or time in the segments, without a consumer.

    plan(...)  -->  one `Task` a segment, in the order of the output  -->  scan(task), in any process  -->  `Found`

A batch is decompressed as a whole and searched for the bytes that a matching record must contain; records are decoded only
in batches that contain them. With a lower bound of time, the time index gives the start position, and a segment that ends
before the bound is skipped.

Rules: blocking; reads only, beside a running broker. A task and its result can be sent to another process. Memory: a
window of a file and one decompressed batch; a task that has found `MAX_MATCHES` stops and returns where to continue.
Invariants: an index is used only where it points at the batch that it names, otherwise the segment is read from its start;
what cannot be read is reported, never skipped, except what retention or the cleaner removes meanwhile.
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
from runtime.disk.filesystem import Buffer, File, FileSystem
from storage.directories.log_directory import parse_partition_folder, partition_of_folder
from storage.segments.index import CorruptIndex, OffsetIndex, SparseIndex, TimeIndex
from storage.segments.interrupted_swap import segment_file_offset
from storage.segments.segment_files import LOG_SUFFIX, segment_path
from storage.segments.stored_batches import MAX_LOADED_BYTES, CorruptLog, StoredBatch, StoredBatches

MAX_MATCHES = 1000
"""The limit of matches of one scan."""
_MAX_INDEX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions for a record; None where any value matches. Times are [from, to) in ms."""

    key: bytes | None = None
    header: tuple[str, bytes | None] | None = None
    """The header's name, and its value; a value of None matches any."""
    from_ms: int | None = None
    to_ms: int | None = None
    value_bytes: int = 1024
    """The length to which a value is shortened in the result."""
    use_index: bool = True

    def matches(self, record: Record) -> bool:
        return (
            (self.key is None or record.key == self.key)
            and (self.from_ms is None or record.timestamp >= self.from_ms)
            and (self.to_ms is None or record.timestamp < self.to_ms)
            and (self.header is None or any(_is_header(self.header, name, value) for name, value in record.headers))
        )

    def needles(self) -> list[bytes]:
        """Return the byte strings that the records of a batch contain if one of them can match."""
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
    """One segment to be scanned from `position`."""

    topic: str
    partition: int
    directory: str
    base_offset: int
    is_last: bool
    """True when no segment follows: then the indexes may lag behind the log."""
    query: Query
    position: int = 0

    @property
    def path(self) -> str:
        return segment_path(self.directory, self.base_offset, LOG_SUFFIX)


@dataclass(frozen=True, slots=True)
class Match:
    """A record that matches; `value` may be shortened to `Query.value_bytes`."""

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
    """The position of its batch."""


@dataclass(slots=True)
class Found:
    """The result of one scan. `following` is the task that continues it when there may be more matches."""

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
    """Return a task for each segment below `paths`, which are log directories or folders of partitions. `problem` is called
    for what cannot be searched. Raises OSError for one of `paths`."""
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
    """Iterate over the partitions of a log directory that a broker serves; other partition folders only if `path` names one."""
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
    """Return the matches of one segment, `MAX_MATCHES` at most."""
    found = Found()
    try:
        file = filesystem.open(task.path, writable=False)
        try:
            _scan_file(filesystem, file, task, found)
        finally:
            file.close()
    except FileNotFoundError:
        pass  # retention or the cleaner has removed it
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
    """The indexes of a task's segment, used only where they agree with its log."""

    def __init__(self, filesystem: FileSystem, file: File, task: Task) -> None:
        self._filesystem = filesystem
        self._task = task
        self._batches = StoredBatches(file)
        self._times = TimeIndex()
        self._offsets = OffsetIndex()

    def load(self) -> bool:
        """Load the indexes; return whether they exist and are valid."""
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
        """Return the start position that misses no record of `from_ms` or later; None when the segment has none."""
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
        """Return whether the log has the batch that this entry of the time index names, with that timestamp."""
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
        """Return the position of a batch at or before this offset."""
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
