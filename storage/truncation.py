"""Cutting a log's segments at the end: what stands behind `PartitionLog.truncate_to` and `truncate_fully_and_start_at`.

Rules: the log has nothing on its way to the disk meanwhile. Memory is cut first, on the event loop, and the log told, so
that nobody reads what goes; then the files, by a job in the directory's queue. Epochs and producers stay the log's.
Invariant: files of later segments go before the cut segment gets shorter, newest first, so that a crash in between
leaves a log without holes.
Source: Kafka LocalLog.truncateTo, LogSegment.truncateTo, LocalLog.truncateFullyAndStartAt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from runtime.filesystem import File, FileSystem
from storage.index import OffsetIndex, SparseIndex, TimeIndex
from storage.interrupted_swap import segment_file_offset
from storage.loading import LoadedLog, LoadRequest, load_log, remove_segment_files
from storage.log_environment import LogEnvironment
from storage.log_reader import LogReader, Segments
from storage.recovery import open_segment
from storage.segment import SNAPSHOT_SUFFIX, OpenedSegment, Segment, create_files, segment_path, write_index


async def cut_segments(
    segments: Segments,
    reader: LogReader,
    environment: LogEnvironment,
    *,
    offset: int,
    log_start_offset: Callable[[], int],
    index_interval_bytes: int,
    on_cut: Callable[[int], None],
) -> LoadedLog:
    """Drop everything at or above `offset`, which the segments hold; answers the log as its files are then.

    `on_cut(offset)`: in memory the log ends there now. Raises OSError.
    """
    segment = segments.at_or_before(offset)
    position = await reader.position_of(segment, offset)
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
    )
    opened, loaded = await environment.queue.run(partial(cut_log, environment.filesystem, cut, request))
    segment.adopt(opened)
    return loaded


async def restart_segments(
    segments: Segments, environment: LogEnvironment, *, offset: int, on_cut: Callable[[int], None]
) -> None:
    """Drop every segment and begin an empty one at `offset`. See `cut_segments`."""
    directory = segments.first.directory
    new = Segment(directory, offset, size_bytes=0, created_ms=environment.clock.wall_ms())
    new.knows_timestamps = new.is_awaited = True
    gone = segments.replace([new])
    on_cut(offset)
    for each in gone:
        environment.open_segments.leave(each)
    job = partial(restart_log, environment.filesystem, directory, [each.base_offset for each in gone], offset)
    new.file = await environment.queue.run(job)
    new.is_awaited = False


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
    for gone in sorted(cut.gone_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, gone)
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
    cut.file.sync()
    filesystem.sync_directory(directory)  # what was cut off must not come back after a loss of power
    opened = open_segment(filesystem, directory, base_offset, request.index_interval_bytes)
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


def restart_log(filesystem: FileSystem, directory: str, gone_base_offsets: list[int], offset: int) -> File:
    """Remove every segment and begin an empty one at `offset`; answers its open file."""
    for gone in sorted(gone_base_offsets, reverse=True):
        remove_segment_files(filesystem, directory, gone)
    for name in filesystem.list_directory(directory):
        if name.endswith(SNAPSHOT_SUFFIX):
            filesystem.unlink(f"{directory}/{name}")
    file = create_files(filesystem, directory, offset)
    filesystem.sync_directory(directory)
    return file
