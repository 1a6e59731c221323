"""Renames the files of segments that are replaced by the cleaned ones made from them.

    .cleaned ──► .swap   the new files count from here on, whatever happens: `storage.segments.interrupted_swap`
    finishes the rest
    old files ──► .deleted
    .swap ──► final names

Rules: jobs, which block; `storage.log.segment_replacement` changes the log in memory.
Invariants: at every moment the names in the folder tell either all of the old segments or all of the new one; the `.log`
goes first, so that indexes are never taken for those of another file.
Source: Kafka LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.disk.filesystem import FileSystem
from storage.segments.interrupted_swap import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from storage.segments.segment_copy import CLEANED_SUFFIXES, CleanedSegment
from storage.segments.segment_files import SNAPSHOT_SUFFIX, segment_path


def swap_files(filesystem: FileSystem, directory: str, cleaned: Sequence[CleanedSegment]) -> list[str]:
    """A job: rename the files; returns the files set aside, which the caller removes later."""
    for each in reversed(cleaned):  # so that a `.cleaned` file tells that nothing behind it counts
        for suffix in each.suffixes:
            path = segment_path(directory, each.base_offset, suffix)
            filesystem.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    filesystem.sync_directory(directory)
    set_aside = [path for each in cleaned for path in _set_aside(filesystem, directory, each)]
    for each in cleaned:  # in order: what has its name already lies before all that has not
        for suffix in each.suffixes:
            path = segment_path(directory, each.base_offset, suffix)
            filesystem.rename(path + SWAP_SUFFIX, path)
    filesystem.sync_directory(directory)
    return set_aside


def _set_aside(filesystem: FileSystem, directory: str, cleaned: CleanedSegment) -> list[str]:
    """Set aside the replaced files. The producers' snapshot at the new segment's base offset stays valid, and is kept."""
    set_aside: list[str] = []
    for base_offset in cleaned.replaced:
        suffixes: Sequence[str] = CLEANED_SUFFIXES
        if base_offset != cleaned.base_offset:
            suffixes = (*CLEANED_SUFFIXES, SNAPSHOT_SUFFIX)
        for suffix in suffixes:
            path = segment_path(directory, base_offset, suffix)
            if filesystem.exists(path):
                filesystem.rename(path, path + DELETED_SUFFIX)
                set_aside.append(path + DELETED_SUFFIX)
    return set_aside
