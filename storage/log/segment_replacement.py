"""Replaces segments of a log by the cleaned ones made from them.

Rules: memory is changed first, on the event loop, so that nobody reads the old segments any more; then the files, by a job in
the directory's queue (`storage.segments.segment_swap`). Whoever touches the new segment meanwhile waits for that job.
Source: Kafka LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from storage.log.partition_log import PartitionLog
from storage.segments.segment import Segment
from storage.segments.segment_copy import CleanedSegment
from storage.segments.segment_swap import swap_files
from storage.segments.txn_index import TxnIndex


def has_closed_segments(log: PartitionLog, base_offsets: Sequence[int]) -> bool:
    """Whether the log contains these segments, none of them is active, and no truncation is in progress."""
    segments = log.segments
    known = {segment.base_offset for segment in segments if segment is not segments.active}
    return log.may_lose_segments and known.issuperset(base_offsets)


async def replace_segments(log: PartitionLog, *cleaned: CleanedSegment) -> None:
    """Replace segments by `cleaned`, in order. The log has all of the replaced ones, none of them active; their files are
    removed after `file.delete.delay.ms`. Raises KAFKA_STORAGE_ERROR."""
    assert all(has_closed_segments(log, each.replaced) for each in cleaned)
    with log.writer.refusals.of_io_errors():
        await _swap_segments(log, cleaned)


async def _swap_segments(log: PartitionLog, cleaned: Sequence[CleanedSegment]) -> None:
    """Raises OSError."""
    segments, environment = log.segments, log.environment
    directory = segments.first.directory
    new = [_segment(directory, each) for each in cleaned]
    replaced = {base_offset for each in cleaned for base_offset in each.replaced}
    kept = [each for each in segments if each.base_offset not in replaced]
    before = [each for each in kept if each.base_offset < cleaned[0].base_offset]
    removed = segments.replace([*before, *new, *kept[len(before) :]])
    assert len(removed) == len(replaced) and segments.active not in new
    log.reading.reader.forget_positions()
    for each in removed:
        environment.open_segments.remove(each)

    def job() -> list[str]:
        try:
            return swap_files(environment.filesystem, directory, cleaned)
        finally:
            for each in new:
                each.is_awaited = False

    environment.delete_later(await environment.queue.run(job), log.config.file_delete_delay_ms)


def _segment(directory: str, cleaned: CleanedSegment) -> Segment:
    new = Segment(directory, cleaned.base_offset, size_bytes=cleaned.size_bytes, created_ms=cleaned.modified_ms)
    new.is_awaited = True
    new.knows_timestamps = new.name_is_durable = True
    new.first_timestamp, new.max_timestamp = cleaned.first_timestamp, cleaned.max_timestamp
    new.offset_of_max_timestamp = cleaned.offset_of_max_timestamp
    if cleaned.txn_index_bytes:
        new.txn_index = TxnIndex(cleaned.txn_index_bytes)
    return new
