"""Splitting a segment whose offsets are too far apart: relative to its base offset they do not fit into an index.

    0…0.log  ──►  0…0.log.cleaned  …3000000000.log.cleaned  ──►  swap

The cleaner of Apache Kafka before 2.0 made such segments of logs with few keys. They are read like others, only that
nothing behind the last index entry is indexed; they are split where they are walked anyway, by recovery and by the cleaner.

Rules: blocking; a generator of steps like those of `storage.cleaner.segment_cleaning`.
Invariants: the parts hold the same batches, and together what the transaction index told; the first one has the base offset
of the whole, so that an exchange that was interrupted finds it.
Source: Kafka LocalLog.splitOverflowedSegment, LogLoader.retryOnOffsetOverflow; KAFKA-6264.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from protocol.records.any_format import iter_any_records
from protocol.records.batch import MAGIC_V2, BatchHeader
from runtime.disk.filesystem import Buffer, FileSystem
from storage.segments.segment_copy import STEP_BYTES, CleanedSegment, SegmentCopy, batches_of
from storage.segments.segment_files import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_path
from storage.segments.segment_swap import swap_files
from storage.segments.stored_batches import MAX_LOADED_BYTES
from storage.segments.txn_index import AbortedTxn, decode_transactions

logger = logging.getLogger(__name__)

READ_BYTES = 512 * 1024


def split_segment(
    filesystem: FileSystem,
    directory: str,
    base_offset: int,
    index_interval_bytes: int,
    parts: list[CleanedSegment],
    begun: list[int],
) -> Iterator[int]:
    """Split a segment; each step yields how many bytes it has copied. `parts` are complete, but for their names, at the end.

    Raises OSError, InvalidBatch, CorruptTxnIndex; then the caller discards the parts that were `begun` (base offsets).
    """
    path = segment_path(directory, base_offset, LOG_SUFFIX)
    modified_ms = filesystem.stat(path).mtime_ms
    aborted = _aborted_transactions(filesystem, directory, base_offset)
    copied_bytes = 0
    begun.append(base_offset)
    copy = SegmentCopy(filesystem, directory, base_offset, index_interval_bytes)
    file = filesystem.open(path, writable=False)
    try:
        for buffer, at, header in batches_of(file, path, READ_BYTES):
            if not copy.holds(header):
                first_offset = _first_offset(buffer, at, header)
                of_part = [each for each in aborted if each.last_offset < first_offset]
                copy.write()
                parts.append(copy.finish(of_part, modified_ms, [] if parts else [base_offset]))
                copy.close()
                aborted = aborted[len(of_part) :]
                begun.append(first_offset)
                copy = SegmentCopy(filesystem, directory, first_offset, index_interval_bytes)
            copy.append(memoryview(buffer)[at : at + header.size_bytes], header)
            copied_bytes += header.size_bytes
            if copied_bytes >= STEP_BYTES:
                copy.write()
                yield copied_bytes
                copied_bytes = 0
        copy.write()
        parts.append(copy.finish(aborted, modified_ms, [] if parts else [base_offset]))
        yield copied_bytes
    finally:
        file.close()
        copy.close()


def split_at_start(filesystem: FileSystem, directory: str, base_offset: int, index_interval_bytes: int) -> None:
    """A job: split a segment of a log that is not open yet."""
    parts: list[CleanedSegment] = []
    for _ in split_segment(filesystem, directory, base_offset, index_interval_bytes, parts, []):
        pass
    for path in swap_files(filesystem, directory, parts):
        filesystem.unlink(path)
    log_split(directory, base_offset, parts)


def log_split(directory: str, base_offset: int, parts: Sequence[CleanedSegment]) -> None:
    logger.warning(
        "segment split, its offsets were too far apart: path=%s base_offset=%d base_offsets=%s",
        directory, base_offset, [each.base_offset for each in parts],
    )  # fmt: skip


def _first_offset(buffer: Buffer, at: int, header: BatchHeader) -> int:
    """Return the first offset of a batch; the header of a message set from before v2 has the last one."""
    if header.magic >= MAGIC_V2:
        return header.base_offset
    return next(record.offset for record in iter_any_records(buffer, at, header, MAX_LOADED_BYTES))


def _aborted_transactions(filesystem: FileSystem, directory: str, base_offset: int) -> list[AbortedTxn]:
    path = segment_path(directory, base_offset, TXN_INDEX_SUFFIX)
    return list(decode_transactions(filesystem.read_bytes(path))) if filesystem.exists(path) else []
