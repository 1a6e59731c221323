"""Cutting a log's segments: at the end (`PartitionLog.truncate_to`, `truncate_fully_and_start_at`) and at the start
(`delete_segments_before`).

Rules: while the end is cut the log has nothing on its way to the disk. Memory is cut first, on the event loop, and the log
told, so that nobody reads what goes; then the files, by a job in the directory's queue. Leader epochs stay the log's. Its
producers at the new end are looked for by readers, since a walk of many batches is not to keep the directory's other logs
waiting; nothing changes the files of a log meanwhile that is being cut.
Invariant: at the end, files of later segments go before the cut segment gets shorter, newest first, so that a crash in between
leaves a log without holes. A cut is on the disk before it is through (`storage.log.truncation_marker`).
Source: Kafka LocalLog.truncateTo, LogSegment.truncateTo, LocalLog.truncateFullyAndStartAt, deleteSegmentFiles;
UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from runtime.filesystem import File, FileSystem
from storage.folder_files import remove_segment_files, set_segments_aside
from storage.log.log_environment import LogEnvironment
from storage.log.log_reader import LogReader
from storage.log.producer_replay import ProducerReplay
from storage.log.producer_state import ProducerStates
from storage.log.truncation_marker import begin_cut, end_cut
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
from storage.segments.txn_index import CorruptTxnIndex, TxnIndex, check_content, cut_content, encode_transactions

logger = logging.getLogger(__name__)


async def cut_segments(
    segments: Segments,
    reader: LogReader,
    environment: LogEnvironment,
    *,
    offset: int,
    log_start_offset: Callable[[], int],
    index_interval_bytes: int,
    on_cut: Callable[[int], None],
) -> int | None:
    """Drop everything at or above `offset`, which the segments hold; answers where the last one's records end then.

    None, and nothing has changed, when no record would be left of a log that starts within its first batch: its files
    cannot say where it starts, so it has to begin anew. `on_cut(offset)`: in memory the log ends there now. Raises OSError.
    """
    segment = segments.at_or_before(offset)
    position = await reader.position_of(segment, offset)
    if position == 0 and segment is segments.first and log_start_offset() > segment.base_offset:
        return None
    gone = segments.replace([each for each in segments if each.base_offset <= segment.base_offset])
    assert segment.file is not None
    cut = Cut(
        segment.base_offset, position, offset, [each.base_offset for each in gone], segment.file,
        [(index.suffix, *index.unwritten()) for index in (segment.offset_index, segment.time_index)],
    )  # fmt: skip
    segment.written_bytes = segment.end_bytes = position
    on_cut(offset)
    for each in gone:
        environment.open_segments.leave(each)
    environment.open_segments.forget(segment)  # active again
    job = partial(cut_log, environment.filesystem, segment.directory, cut, list(segments), index_interval_bytes)
    with reader.cold.while_cut():
        opened, txn_index = await environment.queue.run(job)
        segment.adopt(opened)
        segment.txn_index = txn_index
    return opened.next_offset


async def producers_of_cut(segments: Segments, environment: LogEnvironment, *, offset: int) -> ProducerStates:
    """What the files tell of the producers of a log that was cut at `offset`. Raises OSError."""
    steps = _producer_steps(environment.filesystem, segments.active.directory, list(segments), offset)
    async with environment.replaying:
        while True:
            producers: ProducerStates | None = await environment.readers.run(partial(next, steps))
            if producers is not None:
                return producers


async def drop_unmade_segments(segments: Segments, environment: LogEnvironment) -> None:
    """Of a log for whose next segments there was no room: they go, and what is left is there. Raises OSError."""
    unmade = [each for each in segments if each is not segments.first and each.file is None and not each.end_bytes]
    gone = segments.replace([each for each in segments if each not in unmade])
    for each in gone:
        environment.open_segments.leave(each)
    active = segments.active
    active.is_awaited = False
    base_offsets = [each.base_offset for each in gone]
    await environment.queue.run(
        partial(make_sure_of, environment.filesystem, active.directory, active.base_offset, base_offsets)
    )


async def restart_segments(
    segments: Segments, environment: LogEnvironment, *, offset: int, on_cut: Callable[[int], None]
) -> None:
    """Drop every segment and begin an empty one at `offset`. See `cut_segments`."""
    directory = segments.first.directory
    new = Segment(directory, offset, size_bytes=0, created_ms=environment.clock.wall_ms())
    new.begin()
    new.is_awaited = True
    gone = segments.replace([new])
    on_cut(offset)
    for each in gone:
        environment.open_segments.leave(each)
    job = partial(restart_log, environment.filesystem, directory, [each.base_offset for each in gone], offset)
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
    on_cut: Callable[[int], None],
) -> int:
    """Set aside the segments that hold nothing at or above `offset`, never the active one; answers how many.

    Their files are removed `delay_ms` later. `on_cut(offset)`: in memory the log starts there now, unless it starts later.
    Raises OSError.
    """
    keep = segments.starting_from(offset)
    gone = segments.replace(keep)
    if not gone:
        return 0
    reader.forget_places()
    on_cut(keep[0].base_offset)
    for segment in gone:
        environment.open_segments.leave(segment)
    directory, start_offset = keep[0].directory, keep[0].base_offset
    base_offsets = [segment.base_offset for segment in gone]

    def job() -> list[str]:
        snapshot = segment_path(directory, start_offset, SNAPSHOT_SUFFIX)
        if environment.filesystem.exists(snapshot):
            sync_file(environment.filesystem, snapshot)  # what goes was the other trace of these producers
        return set_segments_aside(environment.filesystem, directory, base_offsets)

    environment.delete_later(await environment.queue.run(job), delay_ms)
    return len(gone)


# --- jobs: these block ---


@dataclass(slots=True)
class Cut:
    """Where to cut: `position` in the segment at `base_offset`, the batch there being the first one to go."""

    base_offset: int
    position: int
    offset: int
    gone_base_offsets: list[int]
    file: File
    index_tails: list[tuple[str, bytes, int]]
    """(suffix, entries that were not in the file, their position in it)"""


def cut_log(
    filesystem: FileSystem, directory: str, cut: Cut, segments: Sequence[Segment], interval_bytes: int
) -> tuple[OpenedSegment, TxnIndex | None]:
    """Cut the files of a log that has `segments` left; answers the state of the last one, and its transaction index."""
    base_offset = cut.base_offset
    begin_cut(filesystem, directory)
    for gone in sorted(cut.gone_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, gone)
    if cut.gone_base_offsets:
        filesystem.sync_directory(directory)  # or they could come back behind a segment that has become shorter
    for snapshot in _snapshots(filesystem, directory):
        if snapshot > cut.offset:
            filesystem.unlink(segment_path(directory, snapshot, SNAPSHOT_SUFFIX))
    cut.file.truncate(cut.position)
    for suffix, content, position in cut.index_tails:
        _end_index(filesystem, segment_path(directory, base_offset, suffix), content, position)
    relative = cut.offset - base_offset
    _cut_index(filesystem, OffsetIndex(), directory, base_offset, key=relative, value=cut.position)
    _cut_index(filesystem, TimeIndex(), directory, base_offset, value=relative)
    txn_index = _cut_txn_index(filesystem, directory, cut, segments)
    sync_data(cut.file)
    filesystem.sync_directory(directory)  # what was cut off must not come back after a loss of power
    end_cut(filesystem, directory)
    opened = open_and_mend_segment(filesystem, directory, base_offset, interval_bytes)
    opened.file.close()
    return opened, txn_index


def _snapshots(filesystem: FileSystem, directory: str) -> list[int]:
    """The offsets of all snapshots in the folder."""
    names = (name for name in filesystem.list_directory(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return [offset for offset in map(segment_file_offset, names) if offset is not None]


def _cut_txn_index(filesystem: FileSystem, directory: str, cut: Cut, segments: Sequence[Segment]) -> TxnIndex | None:
    path = segment_path(directory, cut.base_offset, TXN_INDEX_SUFFIX)
    if not filesystem.exists(path):
        return None
    content = cut_content(filesystem.read_bytes(path), cut.offset)
    try:
        check_content(content, cut.base_offset)
    except CorruptTxnIndex as error:
        logger.warning("transaction index rebuilt: path=%s error=%s", path, str(error))
        replay = ProducerReplay(filesystem, directory, segments, _snapshots(filesystem, directory))
        content = encode_transactions(replay.aborted_in(segments[-1]))
    write_index(filesystem, path, content, 0)
    # Unlike the other indexes it is looked at no more once the recovery point is behind it.
    sync_file(filesystem, path)
    return TxnIndex(len(content)) if content else None


def _producer_steps(
    filesystem: FileSystem, directory: str, segments: Sequence[Segment], offset: int
) -> Iterator[ProducerStates | None]:
    """None behind each step, and at last the producers."""
    replay = ProducerReplay(filesystem, directory, segments, _snapshots(filesystem, directory))
    replay.restore(offset)
    for _ in replay.steps_to(offset):
        yield None
    yield replay.producers


def _end_index(filesystem: FileSystem, path: str, content: bytes, position: int) -> None:
    """Write the end of an index, unless its beginning is not there: a hole would be taken for padding."""
    if position and (not filesystem.exists(path) or filesystem.stat(path).size_bytes < position):
        filesystem.unlink(path)
    else:
        write_index(filesystem, path, content, position)


def _cut_index(
    filesystem: FileSystem, index: SparseIndex, directory: str, base_offset: int, *, value: int, key: int | None = None
) -> None:
    """One that is missing, or cannot be right, is made again by who opens the segment next."""
    path = segment_path(directory, base_offset, index.suffix)
    try:
        content = filesystem.read_bytes(path)
        index.load(content)
    except (CorruptIndex, FileNotFoundError):
        filesystem.unlink(path)
        return
    index.cut(content, key=key, value=value)
    write_index(filesystem, path, *index.unwritten())


def make_sure_of(filesystem: FileSystem, directory: str, base_offset: int, gone_base_offsets: list[int]) -> None:
    """The segment at `base_offset` has a file, and is the last one."""
    for gone in sorted(gone_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, gone)
    filesystem.open(segment_path(directory, base_offset, LOG_SUFFIX), create=True).close()


def restart_log(filesystem: FileSystem, directory: str, gone_base_offsets: list[int], offset: int) -> File:
    """Remove every segment and begin an empty one at `offset`; answers its open file."""
    begin_cut(filesystem, directory)
    for gone in sorted(gone_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, gone)
    for name in filesystem.list_directory(directory):
        if name.endswith(SNAPSHOT_SUFFIX):
            filesystem.unlink(f"{directory}/{name}")
    file = create_files(filesystem, directory, offset)
    filesystem.sync_directory(directory)
    end_cut(filesystem, directory)
    return file
