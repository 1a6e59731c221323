"""Completes, after a crash, the replacement of segments by the cleaned ones made from them.

The cleaner writes `.cleaned` files, renames all of one group to `.swap` when they are complete, sets the old segments
aside, and renames the `.swap` files to their final names. So at a start `.cleaned` files are worthless, and `.swap`
files hold records that may be nowhere else.

Rules: blocking; the first step when a log is loaded. Running it again after a crash in the middle ends the same.
Invariant: a `.swap` file takes its name only when no old segment of its range is left, and the `.log` does so first.
Source: Kafka LogLoader.removeTempFilesAndCollectSwapFiles, LogLoader.load.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from runtime.disk.filesystem import FileSystem
from storage.segments.segment_files import LOG_SUFFIX
from storage.segments.segment_scan import SegmentScan, walk

logger = logging.getLogger(__name__)

CLEANED_SUFFIX = ".cleaned"
DELETED_SUFFIX = ".deleted"
SWAP_SUFFIX = ".swap"
_DIGITS = 20


def segment_file_offset(name: str) -> int | None:
    """The base offset that a segment file's name begins with."""
    digits = name[:_DIGITS]
    return int(digits) if len(name) > _DIGITS and digits.isascii() and digits.isdigit() else None


def finish_swap(filesystem: FileSystem, directory: str, names: Sequence[str]) -> list[str]:
    """Bring the folder, which contains `names`, to the state before or after the replacement; returns the names in it then."""
    if not any(name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, ".tmp")) for name in names):
        return list(names)
    cleaned = [segment_file_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    # A group that is being split is renamed from its end on: what lies behind a `.cleaned` file is not complete.
    complete_before = min((offset for offset in cleaned if offset is not None), default=None)
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    valid = [name for name in swaps if complete_before is None or (segment_file_offset(name) or 0) < complete_before]
    valid = _without_foreign(filesystem, directory, names, valid)
    # The `.log` takes its name first, so the others of a segment that has it already are its own.
    valid.sort(key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    ranges = [
        _offset_range(filesystem, f"{directory}/{name}", segment_file_offset(name) or 0)
        for name in valid
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)
    ]
    if ranges:
        start, end = min(first for first, _ in ranges), max(last for _, last in ranges)
        for name in names:
            offset = segment_file_offset(name)
            is_old = name not in swaps and offset is not None and start <= offset < end
            if is_old and not name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, ".snapshot")):
                filesystem.unlink(f"{directory}/{name}")
    if valid:
        for name in valid:
            filesystem.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
        filesystem.sync_directory(directory)
        logger.warning("interrupted cleaning finished: path=%s files=%d", directory, len(valid))
    for name in filesystem.list_directory(directory):
        if name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, ".tmp")):
            filesystem.unlink(f"{directory}/{name}")
    return filesystem.list_directory(directory)


def _without_foreign(filesystem: FileSystem, directory: str, names: Sequence[str], swaps: Sequence[str]) -> list[str]:
    """Return the `swaps` that a cleaner can have written. It renames a file only when it is completely on the disk, so an
    invalid one is not the cleaner's, or was damaged since: it must not replace an existing segment."""
    foreign: set[int | None] = set()
    for name in swaps:
        path, final_name = f"{directory}/{name}", name.removesuffix(SWAP_SUFFIX)
        if final_name.endswith(LOG_SUFFIX) and final_name in names:
            problem = _scan(filesystem, path, segment_file_offset(name) or 0).problem
            if problem is not None:
                logger.warning("damaged file of a cleaning ignored: path=%s error=%s", path, problem)
                foreign.add(segment_file_offset(name))
    return [name for name in swaps if segment_file_offset(name) not in foreign]


def _offset_range(filesystem: FileSystem, path: str, base_offset: int) -> tuple[int, int]:
    """[base offset, end) of a segment file; at least its base offset."""
    return base_offset, max(_scan(filesystem, path, base_offset).next_offset, base_offset + 1)


def _scan(filesystem: FileSystem, path: str, base_offset: int) -> SegmentScan:
    file = filesystem.open(path, writable=False)
    try:
        scan = SegmentScan(end_position=0, next_offset=base_offset)
        walk(file, base_offset, scan, file.size(), check_crc=False, visit=lambda header, buffer, at: None)
    finally:
        file.close()
    return scan
