"""Reads topics from data directories of brokers, or copies of them, without a broker.

The driver walks over the logs once (`log_summary`) and plans: which offsets, which files and positions, which transactions were
aborted. A task reads its piece of the files, so every executor must see the directories under the same paths.

Rules: nothing is written, no lock is taken. A read begins at the log's start and ends at the log's end, or, of committed
records, at the first open transaction; `endingOffsets` `checkpoint` ends it at the high watermark that the broker wrote down
last. Of several copies of a partition the longest is read.
Errors: SourceOptionError for a directory, topic or offset that is not there, OSError, InvalidBatch.
Source: Kafka LogManager, OffsetCheckpointFile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from barnabas.spark.client.option_values import Offsets, SourceOptionError
from barnabas.spark.client.ranges import OffsetRange, divide
from barnabas.spark.files.log_summary import LogSummary, Mark, pieces_of, summarise
from barnabas.spark.reading.columns import MAX_DECOMPRESSED_BYTES, RangeDecoder
from barnabas.spark.reading.planning import check_covers, check_order, late_error
from barnabas.spark.reading.read_options import Position, ReadOptions
from client.reading.committed import CommittedFilter
from protocol.messages.list_offsets import EARLIEST
from protocol.primitives import Buffer
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.topic_partition import TopicPartition
from storage.checkpoint import CorruptCheckpoint, decode_offsets

_FOLDER = re.compile(r"(.+)-(\d+)")
_LOG_START: Final = "log-start-offset-checkpoint"
_HIGH_WATERMARK: Final = "replication-offset-checkpoint"
TASK_BYTES: Final = 128 * 1024 * 1024
"""A task reads about so many bytes, unless options ask for more tasks."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Bytes of a `.log` file that begin at a batch; `end` is None for up to the end of the file."""

    path: str
    position: int
    end: int | None


@dataclass(frozen=True, slots=True)
class RangeInFiles:
    """What a task reads. `aborted`: (first offset, producer id) of the transactions that it leaves out."""

    range: OffsetRange
    pieces: tuple[FilePiece, ...]
    aborted: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Log:
    directory: str
    summary: LogSummary


class LogPlanner:
    """Plans one read of data directories. `lost` is called with a text when records that were asked for are gone."""

    def __init__(self, options: ReadOptions, lost: Callable[[str], None]) -> None:
        self._options = options
        self._lost = lost

    def plan(self) -> list[RangeInFiles]:
        """Raises what the module says."""
        logs = self._logs()
        starts = self._resolve(self._options.start, logs, is_start=True)
        ends = self._resolve(self._options.end, logs, is_start=False)
        check_order(self._options.start, starts, self._options.end, ends)
        ranges = [
            self._bounded(OffsetRange(*key, starts[key], ends[key]), log.summary) for key, log in sorted(logs.items())
        ]
        if self._options.min_partitions is None and self._options.max_records_per_partition is None:
            parts = [part for each in ranges for part in _by_size(each, logs[each.topic, each.partition].summary)]
        else:
            parts = divide(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [self._file_range(part, logs[part.topic, part.partition].summary) for part in parts]

    def _file_range(self, part: OffsetRange, summary: LogSummary) -> RangeInFiles:
        aborted = summary.aborted_in(part.start, part.end) if self._options.reads_committed else ()
        return RangeInFiles(part, _pieces(summary, part), aborted)

    def _bounded(self, wanted: OffsetRange, summary: LogSummary) -> OffsetRange:
        if wanted.start < summary.start < wanted.end:
            self._lost(
                f"{wanted.topic}-{wanted.partition}: offsets {wanted.start} to {summary.start - 1} are gone, "
                f"the log begins at {summary.start}"
            )
        end = self._end_of(summary)
        if wanted.end > end:
            raise SourceOptionError(f"{wanted.topic}-{wanted.partition} can be read to offset {end}, not {wanted.end}")
        return OffsetRange(wanted.topic, wanted.partition, max(wanted.start, summary.start), wanted.end)

    def _end_of(self, summary: LogSummary) -> int:
        return summary.stable_end if self._options.reads_committed else summary.end

    # --- what is there ---

    def _logs(self) -> dict[TopicPartition, _Log]:
        folders = _folders(self._options.paths)
        internal = {topic: topic.startswith("__") for topic, _ in folders}
        selection = self._options.selection
        topics = set(selection.of_topics(internal))
        keys = [key for key in folders if key[0] in topics]
        if selection.partitions:
            missing = [f"{topic}-{number}" for topic, number in selection.partitions if (topic, number) not in folders]
            if missing:
                raise SourceOptionError(f"assign names partitions that are not there: {', '.join(missing)}")
            keys = list(selection.partitions)
        starts = {directory: _checkpoint(directory, _LOG_START) or {} for directory in self._options.paths}
        found: dict[TopicPartition, _Log] = {}
        for key in keys:
            copies = [
                _Log(directory, summarise(os.path.join(directory, f"{key[0]}-{key[1]}"), starts[directory].get(key)))
                for directory in folders[key]
            ]
            found[key] = max(copies, key=lambda log: log.summary.end)
        return found

    # --- offsets ---

    def _resolve(self, position: Position, logs: dict[TopicPartition, _Log], *, is_start: bool) -> Offsets:
        if position.is_checkpoint:
            return {key: self._high_watermark(key, log) for key, log in logs.items()}
        if position.everywhere is not None:
            return {key: self._symbolic(position.everywhere, log) for key, log in logs.items()}
        if position.offsets is not None:
            check_covers(position.name, position.offsets, logs)
            return {
                key: offset if offset >= 0 else self._symbolic(offset, logs[key])
                for key, offset in position.offsets.items()
            }
        times = position.timestamps_ms
        if times is None:
            assert position.timestamp_ms is not None
            times = dict.fromkeys(logs, position.timestamp_ms)
        check_covers(position.name, times, logs)
        found = {
            key: offset_at(OffsetRange(*key, 0, log.summary.end), log.summary, times[key]) for key, log in logs.items()
        }
        late = [key for key, offset in found.items() if offset is None]
        if late and is_start and not self._options.starts_late_at_latest:
            raise late_error(position.name, late)
        ends = {key: self._end_of(log.summary) for key, log in logs.items()}
        return {key: ends[key] if offset is None else min(offset, ends[key]) for key, offset in found.items()}

    def _symbolic(self, where: int, log: _Log) -> int:
        return log.summary.start if where == EARLIEST else self._end_of(log.summary)

    def _high_watermark(self, key: TopicPartition, log: _Log) -> int:
        offsets = _checkpoint(log.directory, _HIGH_WATERMARK)
        if offsets is None:
            raise SourceOptionError(f"endingOffsets checkpoint needs {_HIGH_WATERMARK} in {log.directory}")
        end = self._end_of(log.summary)
        return max(min(offsets.get(key, 0), end), log.summary.start)


def _folders(directories: tuple[str, ...]) -> dict[TopicPartition, list[str]]:
    """The directories that have each partition. Raises SourceOptionError."""
    found: dict[TopicPartition, list[str]] = {}
    for directory in directories:
        try:
            entries = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        except OSError as error:
            raise SourceOptionError(f"Option 'path': {directory}: {error.strerror}") from error
        for name in entries:
            match = _FOLDER.fullmatch(name)
            if match is not None:
                found.setdefault((match[1], int(match[2])), []).append(directory)
    return found


def _checkpoint(directory: str, name: str) -> Offsets | None:
    """None when there is no such file. Raises SourceOptionError."""
    try:
        with open(os.path.join(directory, name), "rb") as file:
            return decode_offsets(file.read())
    except FileNotFoundError:
        return None
    except CorruptCheckpoint as error:
        raise SourceOptionError(f"{directory}/{name}: {error}") from error


def offset_at(whole: OffsetRange, summary: LogSummary, timestamp_ms: int) -> int | None:
    """The first offset from the log's start on whose record has this time or a later one; None when there is none."""
    for number, mark in enumerate(summary.marks):
        following = summary.marks[number + 1 :]
        end = following[0].offset if following else summary.end
        if mark.max_timestamp < timestamp_ms or end <= summary.start:
            continue
        wanted = OffsetRange(whole.topic, whole.partition, max(mark.offset, summary.start), end)
        for piece in _pieces(summary, wanted):
            for buffer in pieces_of(piece.path, piece.position, piece.end):
                found = _first_from(buffer, wanted, timestamp_ms)
                if found is not None:
                    return found
    return None


def _first_from(buffer: Buffer, wanted: OffsetRange, timestamp_ms: int) -> int | None:
    """The first offset in the range whose record has this time or a later one, None without one."""
    for position, header in iter_any_headers(buffer):
        if header.is_control or header.last_offset < wanted.start or header.max_timestamp < timestamp_ms:
            continue
        for record in iter_any_records(buffer, position, header, MAX_DECOMPRESSED_BYTES):
            if record.timestamp >= timestamp_ms and wanted.start <= record.offset < wanted.end:
                return record.offset
    return None


def _by_size(whole: OffsetRange, summary: LogSummary) -> Iterator[OffsetRange]:
    """Ranges of about TASK_BYTES, each of which begins at a mark."""
    start, size_bytes, previous = whole.start, 0, None
    for mark in summary.marks_of(whole.start, whole.end):
        if previous is not None:
            size_bytes += _distance(previous, mark)
        if size_bytes >= TASK_BYTES and mark.offset > start:
            yield OffsetRange(whole.topic, whole.partition, start, mark.offset)
            start, size_bytes = mark.offset, 0
        previous = mark
    if whole.end > start:
        yield OffsetRange(whole.topic, whole.partition, start, whole.end)


def _distance(mark: Mark, following: Mark) -> int:
    if mark.path == following.path:
        return following.position - mark.position
    return os.path.getsize(mark.path) - mark.position


def _pieces(summary: LogSummary, part: OffsetRange) -> tuple[FilePiece, ...]:
    """The bytes that hold the range: from the mark before it to the mark behind it."""
    marks = summary.marks_of(part.start, part.end)
    behind = next((mark for mark in summary.marks if mark.offset >= part.end), None)
    found: list[FilePiece] = []
    for mark in marks:
        if not found or found[-1].path != mark.path:
            is_last = behind is not None and behind.path == mark.path
            found.append(FilePiece(mark.path, mark.position, behind.position if is_last and behind else None))
    return tuple(found)


def read_files(
    part: RangeInFiles,
    lost: Callable[[str], None],
    *,
    include_headers: bool,
    check_crcs: bool,
    skip_expired_at_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one task. `lost` and `skip_expired_at_ms` as `RangeDecoder` says. Raises OSError, InvalidBatch."""
    decoder = RangeDecoder(
        part.range,
        lost,
        include_headers=include_headers,
        check_crcs=check_crcs,
        skip_expired_at_ms=skip_expired_at_ms,
    )
    batches = CommittedFilter(part.aborted)
    for piece in part.pieces:
        for buffer in pieces_of(piece.path, piece.position, piece.end):
            yield from decoder.decode(buffer, batches)
            if decoder.is_complete:
                return
