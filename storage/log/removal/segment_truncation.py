"""Truncates a log's segments: at the end (for `log_truncation`) and at the start (for `segment_retention`).

Rules: while the end is truncated, no write of the log is in progress. The state in memory changes first, on the event loop, so
that nothing reads the removed records; then what is being sent of them is revoked, and a job in the directory's queue changes
the files. The log itself truncates its leader epochs. Reader threads rebuild its producers at the new end, because reading many
batches in the queue would delay the directory's other logs; nothing else changes the files of a log during its truncation.
Invariant: at the end, files of later segments are removed, newest first, before the last remaining segment is shortened, so
that a crash in between leaves a log without holes. A truncation is on the disk before it completes
(`storage.log.removal.truncation_marker`).
Source: Kafka LocalLog.truncateTo, LogSegment.truncateTo, LocalLog.truncateFullyAndStartAt, deleteSegmentFiles;
UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from runtime.disk.filesystem import File, FileSystem
from storage.folder_files import remove_segment_files, set_segments_aside
from storage.log.log_environment import LogEnvironment
from storage.log.producers.producer_replay import ProducerReplay
from storage.log.producers.producer_state import ProducerStates
from storage.log.reading.log_reader import LogReader
from storage.log.removal.truncation_marker import begin_truncation, end_truncation
from storage.segments.index import CorruptIndex, OffsetIndex, SparseIndex, TimeIndex
from storage.segments.interrupted_swap import segment_file_offset
from storage.segments.segment import OpenedSegment, Segment
from storage.segments.segment_files import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    create_files,
    segment_path,
    sync_data,
    sync_file,
    write_index,
)
from storage.segments.segment_list import Segments
from storage.segments.segment_scan import open_and_mend_segment
from storage.segments.txn_index import CorruptTxnIndex, TxnIndex, check_content, encode_transactions, truncated_content

logger = logging.getLogger(__name__)


async def truncate_segments(
    segments: Segments,
    reader: LogReader,
    environment: LogEnvironment,
    *,
    offset: int,
    log_start_offset: Callable[[], int],
    index_interval_bytes: int,
    on_truncated: Callable[[int], None],
) -> int | None:
    """Remove everything at or above `offset`, which the segments contain; returns where the last one's records end then.

    Returns None, and changes nothing, when no record would be left of a log that starts within its first batch: its files
    cannot say where it starts, so it has to be restarted. `on_truncated(offset)` is called when the log ends there in memory.
    Raises OSError.
    """
    segment = segments.at_or_before(offset)
    position = await reader.position_of(segment, offset)
    if position == 0 and segment is segments.first and log_start_offset() > segment.base_offset:
        return None
    removed = segments.replace([each for each in segments if each.base_offset <= segment.base_offset])
    assert segment.file is not None
    point = TruncationPoint(
        segment.base_offset, position, offset, [each.base_offset for each in removed], segment.file,
        [(index.suffix, *index.unwritten()) for index in (segment.offset_index, segment.time_index)],
    )  # fmt: skip
    segment.written_bytes = segment.end_bytes = position
    on_truncated(offset)
    for each in removed:
        environment.open_segments.remove(each)
    environment.open_segments.forget(segment)  # active again
    job = partial(
        truncate_files, environment.filesystem, segment.directory, point, list(segments), index_interval_bytes
    )
    with reader.cold.while_truncating():
        await environment.ranges_in_flight.revoke_behind(segment, position)
        opened, txn_index = await environment.queue.run(job)
        segment.adopt(opened)
        segment.txn_index = txn_index
    return opened.next_offset


async def producers_after_truncation(segments: Segments, environment: LogEnvironment, *, offset: int) -> ProducerStates:
    """Rebuild from the files the producers of a log that was truncated at `offset`. Raises OSError."""
    steps = _producer_steps(environment.filesystem, segments.active.directory, list(segments), offset)
    async with environment.replaying:
        while True:
            producers: ProducerStates | None = await environment.readers.run(partial(next, steps))
            if producers is not None:
                return producers


async def drop_segments_without_files(segments: Segments, environment: LogEnvironment) -> None:
    """Remove from memory the segments that the full disk had no room for, so that the last one has its files. Raises
    OSError."""
    unmade = [each for each in segments if each is not segments.first and each.file is None and not each.end_bytes]
    removed = segments.replace([each for each in segments if each not in unmade])
    for each in removed:
        environment.open_segments.remove(each)
    active = segments.active
    active.is_awaited = False
    base_offsets = [each.base_offset for each in removed]
    await environment.queue.run(
        partial(ensure_last_segment, environment.filesystem, active.directory, active.base_offset, base_offsets)
    )


async def restart_segments(
    segments: Segments, environment: LogEnvironment, *, offset: int, on_truncated: Callable[[int], None]
) -> None:
    """Remove every segment and begin an empty one at `offset`. See `truncate_segments`."""
    directory = segments.first.directory
    new = Segment(directory, offset, size_bytes=0, created_ms=environment.clock.wall_ms())
    new.begin()
    new.is_awaited = True
    removed = segments.replace([new])
    on_truncated(offset)
    for each in removed:
        environment.open_segments.remove(each)
    job = partial(restart_log, environment.filesystem, directory, [each.base_offset for each in removed], offset)
    try:
        new.file = await environment.queue.run(job)
    finally:
        new.is_awaited = False


async def drop_segments(
    segments: Segments,
    reader: LogReader,
    environment: LogEnvironment,
    *,
    offset: int,
    delay_ms: int,
    on_truncated: Callable[[int], None],
) -> int:
    """Set aside the segments that hold nothing at or above `offset`, never the active one; returns how many.

    Their files are removed `delay_ms` later. `on_truncated(offset)` is called when the log starts there in memory, unless it
    starts later. Raises OSError.
    """
    keep = segments.starting_from(offset)
    removed = segments.replace(keep)
    if not removed:
        return 0
    reader.forget_positions()
    on_truncated(keep[0].base_offset)
    for segment in removed:
        environment.open_segments.remove(segment)
    directory, start_offset = keep[0].directory, keep[0].base_offset
    base_offsets = [segment.base_offset for segment in removed]

    def job() -> list[str]:
        snapshot = segment_path(directory, start_offset, SNAPSHOT_SUFFIX)
        if environment.filesystem.exists(snapshot):
            sync_file(environment.filesystem, snapshot)  # the removed segments were the other record of these producers
        return set_segments_aside(environment.filesystem, directory, base_offsets)

    environment.delete_later(await environment.queue.run(job), delay_ms)
    return len(removed)


# --- jobs: these block ---


@dataclass(slots=True)
class TruncationPoint:
    """Where to truncate: at `position` of the segment at `base_offset`, where the first batch to be removed begins."""

    base_offset: int
    position: int
    offset: int
    removed_base_offsets: list[int]
    file: File
    index_tails: list[tuple[str, bytes, int]]
    """(suffix, entries that were not in the file, their position in it)"""


def truncate_files(
    filesystem: FileSystem, directory: str, point: TruncationPoint, segments: Sequence[Segment], interval_bytes: int
) -> tuple[OpenedSegment, TxnIndex | None]:
    """Truncate the files of a log that keeps `segments`; returns the state of the last one, and its transaction index."""
    base_offset = point.base_offset
    begin_truncation(filesystem, directory)
    for removed in sorted(point.removed_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, removed)
    if point.removed_base_offsets:
        filesystem.sync_directory(directory)  # otherwise they could come back behind a shortened segment
    for snapshot in _snapshots(filesystem, directory):
        if snapshot > point.offset:
            filesystem.unlink(segment_path(directory, snapshot, SNAPSHOT_SUFFIX))
    point.file.truncate(point.position)
    for suffix, content, position in point.index_tails:
        _end_index(filesystem, segment_path(directory, base_offset, suffix), content, position)
    relative = point.offset - base_offset
    _truncate_index(filesystem, OffsetIndex(), directory, base_offset, key=relative, value=point.position)
    _truncate_index(filesystem, TimeIndex(), directory, base_offset, value=relative)
    txn_index = _truncate_txn_index(filesystem, directory, point, segments)
    sync_data(point.file)
    filesystem.sync_directory(directory)  # removed records must not come back after a loss of power
    end_truncation(filesystem, directory)
    opened = open_and_mend_segment(filesystem, directory, base_offset, interval_bytes)
    opened.file.close()
    return opened, txn_index


def _snapshots(filesystem: FileSystem, directory: str) -> list[int]:
    """List the offsets of all snapshots in the folder."""
    names = (name for name in filesystem.list_directory(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return [offset for offset in map(segment_file_offset, names) if offset is not None]


def _truncate_txn_index(
    filesystem: FileSystem, directory: str, point: TruncationPoint, segments: Sequence[Segment]
) -> TxnIndex | None:
    path = segment_path(directory, point.base_offset, TXN_INDEX_SUFFIX)
    if not filesystem.exists(path):
        return None
    content = truncated_content(filesystem.read_bytes(path), point.offset)
    try:
        check_content(content, point.base_offset)
    except CorruptTxnIndex as error:
        logger.warning("transaction index rebuilt: path=%s error=%s", path, str(error))
        replay = ProducerReplay(filesystem, directory, segments, _snapshots(filesystem, directory))
        content = encode_transactions(replay.aborted_in(segments[-1]))
    write_index(filesystem, path, content, 0)
    # Unlike the other indexes it is not checked again once the recovery point is behind it.
    sync_file(filesystem, path)
    return TxnIndex(len(content)) if content else None


def _producer_steps(
    filesystem: FileSystem, directory: str, segments: Sequence[Segment], offset: int
) -> Iterator[ProducerStates | None]:
    """Yield None after each step, and finally the producers."""
    replay = ProducerReplay(filesystem, directory, segments, _snapshots(filesystem, directory))
    replay.restore(offset)
    for _ in replay.steps_to(offset):
        yield None
    yield replay.producers


def _end_index(filesystem: FileSystem, path: str, content: bytes, position: int) -> None:
    """Write the end of an index, unless its beginning is missing in the file: a hole would be read as padding."""
    if position and (not filesystem.exists(path) or filesystem.stat(path).size_bytes < position):
        filesystem.unlink(path)
    else:
        write_index(filesystem, path, content, position)


def _truncate_index(
    filesystem: FileSystem, index: SparseIndex, directory: str, base_offset: int, *, value: int, key: int | None = None
) -> None:
    """Shorten an index. An index that is missing or invalid is rebuilt when the segment is next opened."""
    path = segment_path(directory, base_offset, index.suffix)
    try:
        content = filesystem.read_bytes(path)
        index.load(content)
    except (CorruptIndex, FileNotFoundError):
        filesystem.unlink(path)
        return
    index.truncate(content, key=key, value=value)
    write_index(filesystem, path, *index.unwritten())


def ensure_last_segment(
    filesystem: FileSystem, directory: str, base_offset: int, removed_base_offsets: list[int]
) -> None:
    """Ensure that the segment at `base_offset` has a file, and is the last one."""
    for removed in sorted(removed_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, removed)
    filesystem.open(segment_path(directory, base_offset, LOG_SUFFIX), create=True).close()


def restart_log(filesystem: FileSystem, directory: str, removed_base_offsets: list[int], offset: int) -> File:
    """Remove every segment and begin an empty one at `offset`; returns its open file."""
    begin_truncation(filesystem, directory)
    for removed in sorted(removed_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, removed)
    for name in filesystem.list_directory(directory):
        if name.endswith(SNAPSHOT_SUFFIX):
            filesystem.unlink(f"{directory}/{name}")
    file = create_files(filesystem, directory, offset)
    filesystem.sync_directory(directory)
    end_truncation(filesystem, directory)
    return file
