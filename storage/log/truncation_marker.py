"""`cut`: the mark of a cut that is under way, an empty file in the log's folder.

    mark  -->  files go, a file gets shorter  -->  fsync of the file and the folder  -->  no mark

A broker that is killed in the middle leaves what the next start sees, and may have sent elsewhere before it is on the disk:
records that were cut off, since the leader has others there, would be back after a loss of power, behind or between those
that were appended meanwhile. So a start that finds the mark flushes first. The mark itself needs no flush: with the power
the cut is lost as well, and the log is what it was.

Rules: blocking functions of a folder. A disk without room may have none for the mark: the cut, which makes room, goes on.
Source: none in Kafka, which flushes no cut; it passes over files that it does not know.
"""

from __future__ import annotations

from runtime.filesystem import FileSystem
from storage.free_space import is_no_space
from storage.segments.segment_files import LOG_SUFFIX, segment_path, sync_file

CUT_MARK = "cut"


def begin_cut(filesystem: FileSystem, directory: str) -> None:
    """Before the first change."""
    try:
        filesystem.write_bytes(f"{directory}/{CUT_MARK}", b"")
    except OSError as error:
        if not is_no_space(error):
            raise


def end_cut(filesystem: FileSystem, directory: str) -> None:
    """Behind the last fsync."""
    filesystem.unlink(f"{directory}/{CUT_MARK}")


def finish_cut(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """Of a cut that ended half way, or did: what is left of the log, the last segment of which is at `base_offset`, is on
    the disk when this returns."""
    sync_file(filesystem, segment_path(directory, base_offset, LOG_SUFFIX))
    filesystem.sync_directory(directory)
    end_cut(filesystem, directory)
