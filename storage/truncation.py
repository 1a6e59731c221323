"""Cutting a log at its end: the jobs behind `PartitionLog.truncate_to` and `truncate_fully_and_start_at`.

Rules: blocking, run in the directory's queue; the log has nothing on its way to the disk meanwhile. What is answered is
installed by the log on the event loop.
Invariant: files of later segments go before the cut segment gets shorter, newest first, so that a crash in between
leaves a log without holes.
Source: Kafka LocalLog.truncateTo, LogSegment.truncateTo, LocalLog.truncateFullyAndStartAt.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.filesystem import File, FileSystem
from storage.index import OffsetIndex, SparseIndex, TimeIndex
from storage.interrupted_swap import segment_file_offset
from storage.loading import LoadedLog, LoadRequest, load_log, remove_segment_files
from storage.recovery import open_segment
from storage.segment import SNAPSHOT_SUFFIX, OpenedSegment, create_files, segment_path, write_index


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
