"""`dump-log` of a segment's `.index` and `.timeindex`: the entries, each compared with the batch it points at.

Rules: blocking; reads only. An index is read a page at a time, and the `.log` behind a time index is walked once, forwards,
whatever the index says: a damaged one costs no more than a sound one.
Differs from Apache Kafka where that one ends with an exception: entries that point at no batch are told as mismatches. And
an index that a running Apache Kafka has filled with zeros counts as empty.
Source: Kafka DumpLogSegments.dumpIndex and dumpTimeIndex, OffsetIndex and TimeIndex.sanityCheck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runtime.filesystem import File, FileSystem
from storage.dump_findings import NOT_FOUND, Findings
from storage.index import OffsetIndex, SparseIndex, TimeIndex
from storage.segment import LOG_SUFFIX, NO_TIMESTAMP
from storage.stored_batches import CorruptLog, StoredBatch, StoredBatches

_PAGE_ENTRIES = 4096


class IndexDump:
    """Of one index file, whose segment begins at `base_offset`."""

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        base_offset: int,
        findings: Findings,
        *,
        line: Callable[[str], None],
        complain: Callable[[str], None],
    ) -> None:
        self._filesystem = filesystem
        self._path = path
        self._log_path = path.rpartition(".")[0] + LOG_SUFFIX
        self._base_offset = base_offset
        self._findings = findings
        self._line = line
        self._complain = complain

    def offsets(self, *, is_shown: bool, only_sanity: bool) -> None:
        """Of an `.index`. Raises OSError."""
        file = self._filesystem.open(self._path, writable=False)
        try:
            first = next(_entries(file, OffsetIndex), None)
            if first is None or first == (0, 0):
                self._line(f"{self._path} is empty.")
            elif only_sanity:
                self._check_sanity(file, OffsetIndex)
            else:
                self._compare_offsets(file, is_shown=is_shown)
        finally:
            file.close()

    def times(self, *, is_shown: bool, only_sanity: bool) -> None:
        """Of a `.timeindex`. Raises OSError."""
        file = self._filesystem.open(self._path, writable=False)
        try:
            if only_sanity:
                self._check_sanity(file, TimeIndex)
            else:
                self._compare_times(file, is_shown=is_shown)
        finally:
            file.close()

    def _check_sanity(self, file: File, index: type[SparseIndex]) -> None:
        """What a starting broker asks before it believes an index."""
        problem = None
        entry_bytes = index.entry.size
        odd_bytes = file.size() % entry_bytes
        if odd_bytes:
            problem = f"its size {file.size()} is no multiple of {entry_bytes}"
        elif index is TimeIndex and file.size():
            first_timestamp = index.entry.unpack(file.read_at(entry_bytes, 0))[0]
            last_timestamp = max((timestamp for timestamp, _ in _used(_entries(file, index))), default=first_timestamp)
            if last_timestamp < first_timestamp:
                problem = f"its last timestamp {last_timestamp} is less than its first one {first_timestamp}"
        if problem is None:
            self._line(f"{self._path} passed sanity check.")
        else:
            self._findings.problem()
            self._complain(f"Corrupt index found, index file ({self._path}): {problem}")

    def _compare_offsets(self, file: File, *, is_shown: bool) -> None:
        log = self._filesystem.open(self._log_path, writable=False)
        try:
            batches = StoredBatches(log)
            for relative_offset, position in _used(_entries(file, OffsetIndex)):
                offset = self._base_offset + relative_offset
                found = _batch_at(batches, position)
                log_offset = NOT_FOUND if found is None else found.header.last_offset
                if log_offset != offset:
                    self._findings.index_mismatch(self._path, offset, log_offset)
                if is_shown:
                    self._line(f"offset: {offset} position: {position}")
        finally:
            log.close()

    def _compare_times(self, file: File, *, is_shown: bool) -> None:
        log = self._filesystem.open(self._log_path, writable=False)
        try:
            walk = _Walk(log)
            previous = NO_TIMESTAMP
            for timestamp, relative_offset in _used(_entries(file, TimeIndex)):
                offset = self._base_offset + relative_offset
                batch = walk.to(offset)
                if batch is None or batch.header.last_offset != offset:
                    self._findings.offset_not_found(offset, NOT_FOUND if batch is None else batch.header.last_offset)
                else:
                    if batch.header.max_timestamp != timestamp:
                        self._findings.timestamp_mismatch(self._path, timestamp, batch.header.max_timestamp)
                    if previous >= timestamp:
                        self._findings.falling_timestamp(self._path, timestamp, previous)
                if is_shown:
                    self._line(f"timestamp: {timestamp} offset: {offset}")
                previous = timestamp
        finally:
            log.close()


class _Walk:
    """From batch to batch, forwards only."""

    def __init__(self, log: File) -> None:
        self._batches = iter(StoredBatches(log))
        self._batch = self._next()

    def to(self, offset: int) -> StoredBatch | None:
        """The first batch from here on that ends at or behind `offset`."""
        while self._batch is not None and self._batch.header.last_offset < offset:
            self._batch = self._next()
        return self._batch

    def _next(self) -> StoredBatch | None:
        try:
            return next(self._batches, None)
        except CorruptLog:
            return None


def _batch_at(batches: StoredBatches, position: int) -> StoredBatch | None:
    try:
        return batches.batch_at(position)
    except CorruptLog:
        return None


def _entries(file: File, index: type[SparseIndex]) -> Iterator[tuple[int, int]]:
    """All whole ones, in the order of the file's columns."""
    size, position = index.entry.size, 0
    while content := file.read_at(_PAGE_ENTRIES * size, position):
        whole = len(content) // size * size
        yield from index.entry.iter_unpack(content[:whole])
        if whole < _PAGE_ENTRIES * size:
            return
        position += whole


def _used(entries: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those before the zeros that a file which is not closed yet is filled with."""
    for key, value in entries:
        if not key and not value:
            return
        yield key, value
