"""A segment's files: their names, and what is done to them whole.

Rules: the functions block; they are jobs of a directory's queue or of a reader thread. Nothing here knows a segment's state.
Source: Kafka LogFileUtils, LogSegment.flush, Utils.flushDir.
"""

from __future__ import annotations

import errno

from runtime.disk.filesystem import Buffer, File, FileSystem
from runtime.error_texts import reason_of
from storage.free_space import is_no_space
from storage.segments.index import OffsetIndex, TimeIndex

LOG_SUFFIX = ".log"
SNAPSHOT_SUFFIX = ".snapshot"
TXN_INDEX_SUFFIX = ".txnindex"


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


def read_file(filesystem: FileSystem, path: str, length: int, position: int) -> Buffer:
    file = filesystem.open(path, writable=False)
    try:
        return file.read_at(length, position)
    finally:
        file.close()


def create_files(filesystem: FileSystem, directory: str, base_offset: int) -> File:
    """Make the files of a new segment; answers its open `.log`. Leftovers of an earlier life are emptied."""
    filesystem.unlink(segment_path(directory, base_offset, TXN_INDEX_SUFFIX))
    for suffix in (OffsetIndex.suffix, TimeIndex.suffix):
        filesystem.write_bytes(segment_path(directory, base_offset, suffix), b"")
    file = filesystem.open(segment_path(directory, base_offset, LOG_SUFFIX), create=True)
    if file.size():
        file.truncate(0)
    return file


def write_index(filesystem: FileSystem, path: str, content: Buffer, position: int) -> None:
    """Write `content` at `position` and end the file there."""
    file = filesystem.open(path, create=True)
    try:
        if content:
            file.write_at([content], position)
        end = position + len(content)
        if file.size() != end:
            file.truncate(end)
    finally:
        file.close()


def write_page(filesystem: FileSystem, path: str, content: Buffer, position: int) -> None:
    """Write `content` at `position`, whatever follows."""
    file = filesystem.open(path, create=True)
    try:
        file.write_at([content], position)
    finally:
        file.close()


def sync_segment(
    filesystem: FileSystem, directory: str, base_offset: int, file: File | None, end_offset: int | None = None
) -> None:
    """A job: fsync a segment, its indexes, and the folder that lists them; the snapshot at its `end_offset`, if it ended."""
    if file is not None:
        file.sync()
    paths = [
        segment_path(directory, base_offset, each)
        for each in (OffsetIndex.suffix, TimeIndex.suffix, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
    ]
    if file is None:
        paths.insert(0, segment_path(directory, base_offset, LOG_SUFFIX))
    if end_offset is not None:
        paths.append(segment_path(directory, end_offset, SNAPSHOT_SUFFIX))
    for path in paths:
        if filesystem.exists(path):
            sync_file(filesystem, path)
    filesystem.sync_directory(directory)


def sync_data(file: File) -> None:
    """A job: fsync records. Whatever the error says, what was written before may be lost: also where it says that there was no
    room, which is no reason to go on later."""
    try:
        file.sync()
    except OSError as error:
        if is_no_space(error):
            raise OSError(errno.EIO, f"fsync of {file.path} failed: {reason_of(error)}") from error
        raise


def sync_file(filesystem: FileSystem, path: str) -> None:
    """A job."""
    file = filesystem.open(path)
    try:
        file.sync()
    finally:
        file.close()
