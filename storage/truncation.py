"""Cutting a log's segments: at the end (`PartitionLog.truncate_to`, `truncate_fully_and_start_at`) and at the start
(`delete_segments_before`).

Rules: while the end is cut the log has nothing on its way to the disk. Memory is cut first, on the event loop, and the log
told, so that nobody reads what goes; then the files, by a job in the directory's queue. Epochs and producers stay the log's.
Invariant: at the end, files of later segments go before the cut segment gets shorter, newest first, so that a crash in between
leaves a log without holes. A cut is on the disk before it is through (`storage.cut_mark`).
Source: Kafka LocalLog.truncateTo, LogSegment.truncateTo, LocalLog.truncateFullyAndStartAt, deleteSegmentFiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from runtime.filesystem import File, FileSystem
from storage.cut_mark import begin_cut, end_cut
from storage.folder_files import remove_segment_files, set_segments_aside
from storage.index import OffsetIndex, SparseIndex, TimeIndex
from storage.interrupted_swap import segment_file_offset
from storage.loading import LoadedLog, LoadRequest, load_log
from storage.log_environment import LogEnvironment
from storage.log_reader import LogReader
from storage.recovery import open_and_mend_segment
from storage.segment import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    OpenedSegment,
    Segment,
    create_files,
    segment_path,
    sync_data,
    sync_file,
    write_index,
)
from storage.segments import Segments
from storage.txn_index import cut_content


async def cut_segments(
    segments: Segments,
    reader: LogReader,
    environment: LogEnvironment,
    *,
    offset: int,
    log_start_offset: Callable[[], int],
    index_interval_bytes: int,
    is_compacted: bool,
    on_cut: Callable[[int], None],
) -> LoadedLog | None:
    """Drop everything at or above `offset`, which the segments hold; answers the log as its files are then.

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
    request = LoadRequest(
        segment.directory,
        is_clean=True,
        index_interval_bytes=index_interval_bytes,
        now_ms=segment.created_ms,
        recovery_point=offset,
        log_start_offset=log_start_offset(),
        forgets_without_snapshot=False,
        is_compacted=is_compacted,
    )
    with reader.while_cut():
        opened, loaded = await environment.queue.run(partial(cut_log, environment.filesystem, cut, request))
        segment.adopt(opened)
        segment.txn_index = loaded.segments[-1].txn_index
    return loaded


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


def cut_log(filesystem: FileSystem, cut: Cut, request: LoadRequest) -> tuple[OpenedSegment, LoadedLog]:
    """Cut the files; answers the state of the segment that is active now, and of the whole log."""
    directory, base_offset = request.directory, cut.base_offset
    begin_cut(filesystem, directory)
    for gone in sorted(cut.gone_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, gone)
    if cut.gone_base_offsets:
        filesystem.sync_directory(directory)  # or they could come back behind a segment that has become shorter
    for name in filesystem.list_directory(directory):
        snapshot = segment_file_offset(name)
        if name.endswith(SNAPSHOT_SUFFIX) and snapshot is not None and snapshot > cut.offset:
            filesystem.unlink(f"{directory}/{name}")
    cut.file.truncate(cut.position)
    for suffix, content, position in cut.index_tails:
        write_index(filesystem, segment_path(directory, base_offset, suffix), content, position)
    relative = cut.offset - base_offset
    _cut_index(filesystem, OffsetIndex(), directory, base_offset, key=relative, value=cut.position)
    _cut_index(filesystem, TimeIndex(), directory, base_offset, value=relative)
    txn_index_path = segment_path(directory, base_offset, TXN_INDEX_SUFFIX)
    if filesystem.exists(txn_index_path):
        write_index(filesystem, txn_index_path, cut_content(filesystem.read_bytes(txn_index_path), cut.offset), 0)
        # Unlike the other indexes it is looked at no more once the recovery point is behind it.
        sync_file(filesystem, txn_index_path)
    sync_data(cut.file)
    filesystem.sync_directory(directory)  # what was cut off must not come back after a loss of power
    end_cut(filesystem, directory)
    opened = open_and_mend_segment(filesystem, directory, base_offset, request.index_interval_bytes)
    opened.file.close()
    return opened, load_log(filesystem, request)


def _cut_index(
    filesystem: FileSystem, index: SparseIndex, directory: str, base_offset: int, *, value: int, key: int | None = None
) -> None:
    path = segment_path(directory, base_offset, index.suffix)
    content = filesystem.read_bytes(path)
    index.load(content)
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
