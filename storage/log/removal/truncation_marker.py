"""Marks a truncation in progress by an empty file `cut` in the log's folder.

    mark  -->  files go, a file gets shorter  -->  fsync of the file and the folder  -->  no mark

When a broker is killed during a truncation, the next start sees the shortened log in the page cache, and may serve it before it
is on the disk. A loss of power could then bring back the removed records behind or between newer ones. So a start that finds
the marker flushes first. The marker itself needs no flush: a loss of power that removes it undoes the truncation as well.

Rules: blocking functions of a folder. On a full disk the marker may fail; the truncation, which frees space, goes on.
Source: none in Kafka, which flushes no truncation; it ignores files that it does not know.
"""

from __future__ import annotations

from runtime.disk.filesystem import FileSystem
from storage.free_space import is_no_space
from storage.segments.segment_files import LOG_SUFFIX, segment_path, sync_file

TRUNCATION_MARKER = "cut"


def begin_truncation(filesystem: FileSystem, directory: str) -> None:
    """Write the marker, before the first change."""
    try:
        filesystem.write_bytes(f"{directory}/{TRUNCATION_MARKER}", b"")
    except OSError as error:
        if not is_no_space(error):
            raise


def end_truncation(filesystem: FileSystem, directory: str) -> None:
    """Remove the marker, after the last fsync."""
    filesystem.unlink(f"{directory}/{TRUNCATION_MARKER}")


def finish_truncation(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """Flush what an interrupted truncation left of the log, whose last segment is at `base_offset`, and remove the marker."""
    sync_file(filesystem, segment_path(directory, base_offset, LOG_SUFFIX))
    filesystem.sync_directory(directory)
    end_truncation(filesystem, directory)
