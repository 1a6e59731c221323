"""`dump-log` of a segment's `.index` and `.timeindex`: compares each entry with the batch it points at.

Rules: blocking; reads only. An index is read a page at a time; all entries of a time index are in memory, a few dozen bytes
each, and its `.log` is read once, forwards, whatever the index says: a damaged index costs no more than a valid one. Numbers
are read as in Java, with a sign, because a damaged entry may have any value.
Differences from Apache Kafka: entries that point at no batch are reported as mismatches, where it ends with an exception. It
searches a time index's entry from the position in the offset index; here only the log is read. An index that a running broker
has filled with zeros counts as empty.
Source: Kafka DumpLogSegments.dumpIndex and dumpTimeIndex, OffsetIndex and TimeIndex.sanityCheck.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from struct import Struct

from runtime.disk.filesystem import File, FileSystem
from storage.offline.dump_findings import NOT_FOUND, Findings
from storage.segments.index import OffsetIndex, SparseIndex, TimeIndex
from storage.segments.segment import NO_TIMESTAMP
from storage.segments.segment_files import LOG_SUFFIX
from storage.segments.stored_batches import CorruptLog, StoredBatch, StoredBatches

Entry = tuple[int, int]

_PAGE_ENTRIES = 4096
_SIGNED = {OffsetIndex: Struct(">ii"), TimeIndex: Struct(">qi")}


class IndexDump:
    """Dumps one index file, whose segment begins at `base_offset`."""

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
        self._absolute = filesystem.absolute(path)
        self._log_path = path.rpartition(".")[0] + LOG_SUFFIX
        self._base_offset = base_offset
        self._findings = findings
        self._line = line
        self._complain = complain

    def offsets(self, *, is_shown: bool, only_sanity: bool) -> None:
        """Dump an `.index`. Raises OSError."""
        file = self._filesystem.open(self._path, writable=False)
        try:
            if not any(key or value for key, value in _entries(file, OffsetIndex)):
                self._line(f"{self._path} is empty.")
            elif only_sanity:
                self._check_sanity(file, OffsetIndex)
            else:
                self._compare_offsets(file, is_shown=is_shown)
        finally:
            file.close()

    def times(self, *, is_shown: bool, only_sanity: bool) -> None:
        """Dump a `.timeindex`. Raises OSError."""
        file = self._filesystem.open(self._path, writable=False)
        try:
            if only_sanity:
                self._check_sanity(file, TimeIndex)
            else:
                self._compare_times(file, is_shown=is_shown)
        finally:
            file.close()

    def _check_sanity(self, file: File, index: type[SparseIndex]) -> None:
        """Check what a starting broker checks before it uses an index."""
        problem = self._sanity_problem(file, index)
        if problem is None:
            self._line(f"{self._path} passed sanity check.")
        else:
            self._findings.problem()
            self._complain(f"Corrupt index found, index file ({self._absolute}): {problem}")

    def _sanity_problem(self, file: File, index: type[SparseIndex]) -> str | None:
        first: Entry | None = None
        last: Entry | None = None
        for entry in _entries(file, index):
            first = first or entry
            if any(entry):  # a file that is not closed yet is filled with zeros
                last = entry
        if first is not None and last is not None:
            if index is TimeIndex and last[0] < first[0]:
                return f"its last timestamp {last[0]} is less than its first one {first[0]}"
            relative_offset = last[1 if index is TimeIndex else 0]
            if relative_offset < 0:
                last_offset = self._base_offset + relative_offset
                return f"its last offset {last_offset} is less than its base offset {self._base_offset}"
        odd_bytes = file.size() % index.entry.size
        return f"its size {file.size()} is no multiple of {index.entry.size}" if odd_bytes else None

    def _compare_offsets(self, file: File, *, is_shown: bool) -> None:
        log = self._filesystem.open(self._log_path, writable=False)
        try:
            batches = StoredBatches(log)
            for number, (relative_offset, position) in enumerate(_entries(file, OffsetIndex)):
                if number and not relative_offset:
                    return  # a file that is not closed yet is filled with zeros
                offset = _int64(self._base_offset + relative_offset)
                found = _batch_at(batches, position)
                log_offset = NOT_FOUND if found is None else _int64(found.header.last_offset)
                if log_offset != offset:
                    self._findings.index_mismatch(self._absolute, offset, log_offset)
                if is_shown:
                    self._line(f"offset: {offset} position: {position}")
        finally:
            log.close()

    def _compare_times(self, file: File, *, is_shown: bool) -> None:
        log = self._filesystem.open(self._log_path, writable=False)
        try:
            timestamps, offsets = self._times(file)
            found = _BatchesOf(offsets, log)
            previous = NO_TIMESTAMP
            for timestamp, offset in zip(timestamps, offsets, strict=True):
                log_offset, log_timestamp = found.batch(offset)
                if log_offset != offset:
                    self._findings.offset_not_found(self._absolute, offset, log_offset)
                else:
                    if log_timestamp != timestamp:
                        self._findings.timestamp_mismatch(self._absolute, timestamp, log_timestamp)
                    if previous >= timestamp:
                        self._findings.falling_timestamp(self._absolute, timestamp, previous)
                if is_shown:
                    self._line(f"timestamp: {timestamp} offset: {offset}")
                previous = timestamp
        finally:
            log.close()

    def _times(self, file: File) -> tuple[array[int], array[int]]:
        """Return the timestamps and offsets before the zeros that fill a file that is not closed yet."""
        timestamps, offsets = array("q"), array("q")
        if any(key or value for key, value in _entries(file, TimeIndex)):
            for timestamp, relative_offset in _entries(file, TimeIndex):
                if timestamps and not relative_offset:
                    break
                timestamps.append(timestamp)
                offsets.append(_int64(self._base_offset + relative_offset))
        return timestamps, offsets


class _BatchesOf:
    """Finds for each of `offsets`, in any order, the batch of the log that ends there, or else the first that ends after it.

    Only the first batch that ends at or after an offset would be wrong for all offsets once one batch has a damaged offset.
    """

    def __init__(self, offsets: array[int], log: File) -> None:
        self._offsets = array("q", sorted(set(offsets)))
        self._log_offsets = array("q")
        self._timestamps = array("q")
        if self._offsets:
            self._walk(log)

    def _walk(self, log: File) -> None:
        wanted, found, timestamps = self._offsets, self._log_offsets, self._timestamps
        missing = len(wanted)
        try:
            for batch in StoredBatches(log):
                last_offset, timestamp = _int64(batch.header.last_offset), batch.header.max_timestamp
                at = bisect_left(wanted, last_offset, 0, len(found))
                if at < len(found) and wanted[at] == last_offset != found[at]:
                    found[at], timestamps[at] = last_offset, timestamp
                    missing -= 1
                while len(found) < len(wanted) and wanted[len(found)] <= last_offset:
                    missing -= wanted[len(found)] == last_offset
                    found.append(last_offset)
                    timestamps.append(timestamp)
                if not missing:
                    return
        except CorruptLog:
            return

    def batch(self, offset: int) -> Entry:
        """Return (last offset, timestamp) of the batch; NOT_FOUND where the log ends before."""
        at = bisect_left(self._offsets, offset)
        if at < len(self._log_offsets):
            return self._log_offsets[at], self._timestamps[at]
        return NOT_FOUND, NO_TIMESTAMP


def _batch_at(batches: StoredBatches, position: int) -> StoredBatch | None:
    if position < 0:
        return None
    try:
        return batches.batch_at(position)
    except CorruptLog:
        return None


def _entries(file: File, index: type[SparseIndex]) -> Iterator[Entry]:
    """Iterate over the complete entries, in the order of the file's columns."""
    entry, position = _SIGNED[index], 0
    while content := file.read_at(_PAGE_ENTRIES * entry.size, position):
        whole = len(content) // entry.size * entry.size
        yield from entry.iter_unpack(content[:whole])
        if whole < _PAGE_ENTRIES * entry.size:
            return
        position += whole


def _int64(number: int) -> int:
    """Return `number` with the overflow of Java's long."""
    return (number + (1 << 63) & (1 << 64) - 1) - (1 << 63)
