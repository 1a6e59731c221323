"""The start of a log: deletes records below an offset, and removes the oldest segments that retention expires.

    expired by time, size or log start --> set aside (`.deleted`) --file.delete.delay.ms--> removed

Rules: runs on the event loop; which segments expire is decided by `retention_rules`, and files are renamed by
`segment_truncation`. Ages that are not known yet are read in threads, some at a time.
Invariants: the active segment is never removed (retention rolls it first); records at or above the high watermark stay; the
producers of removed records are in a snapshot that is on the disk before they go. The log start offset follows.
Source: Kafka UnifiedLog.deleteOldSegments, deleteSegments, ProducerStateManager.removeStraySnapshots.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from protocol.errors import ErrorCode, KafkaError
from storage.free_space import Room
from storage.log.partition_log import PartitionLog
from storage.log.removal.retention_rules import SegmentExtent, expired_segments
from storage.log.removal.segment_truncation import drop_segments
from storage.segments.segment import NO_TIMESTAMP, Segment
from storage.segments.segment_age import AGES_AT_ONCE, SegmentAge, segment_ages
from storage.segments.segment_files import SNAPSHOT_SUFFIX

logger = logging.getLogger(__name__)


# --- deleting records ---


def delete_records(log: PartitionLog, offset: int) -> int:
    """Make records below `offset` invisible to readers; returns the new log start offset.

    Raises OFFSET_OUT_OF_RANGE above the high watermark.
    """
    if offset > log.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Cannot delete {log.name} up to {offset}: its high watermark is {log.high_watermark}.",
        )
    raise_log_start_offset(log, offset)
    return log.log_start_offset


def raise_log_start_offset(log: PartitionLog, offset: int) -> None:
    """Begin the log at `offset`, unless it begins later already."""
    if offset <= log.log_start_offset:
        return
    assert offset <= log.log_end_offset
    log.offsets.log_start_offset = offset
    log.epochs.truncate_from_start(offset)
    log.start_listener.on_start_raised()


# --- removing segments ---


async def delete_old_segments(log: PartitionLog) -> int:
    """Set aside the segments that retention expires; returns how many. Raises KAFKA_STORAGE_ERROR."""
    ages: dict[Segment, SegmentAge] = {}
    while log.may_lose_segments:
        segments = list(log.segments)
        now_ms = log.environment.clock.wall_ms()
        expired = expired_segments(
            [_extent(log, segment, ages.get(segment)) for segment in segments],
            log.config,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            now_ms=now_ms,
        )
        if expired.undated is not None and not _lacks_files(log, segments[expired.undated]):
            undated = segments[expired.undated : expired.undated + AGES_AT_ONCE]
            await _load_ages(log, [segment for segment in undated if not _lacks_files(log, segment)], ages)
        elif not expired.count:
            return 0
        elif segments[-1].is_awaited and log.environment.space.room is not Room.OPEN:
            await log.environment.queue.drain()  # there may be no room for its files
            if segments[-1].is_awaited:
                return 0
        elif expired.count < len(segments):
            logger.info(
                "old segments deleted by retention: topic=%s partition=%d "
                "start_offset_segments=%d size_segments=%d time_segments=%d",
                log.topic,
                log.partition,
                expired.by_start_offset,
                expired.by_size,
                expired.by_time,
            )
            return await delete_segments_before(log, segments[_deletable_count(log, expired.count)].base_offset)
        elif log.is_halted:
            return 0  # there is no room for another segment
        elif segments[-1].file is None:
            await log.reading.reader.cold.open(segments[-1])  # it is finished like any other segment
        else:
            log.writer.roll(log.offsets.next_offset, now_ms)
    return 0


def undated_segment(log: PartitionLog) -> Segment | None:
    """The oldest segment, if `delete_old_segments` would have to read its files to learn its age; else None."""
    oldest = log.segments.first
    if oldest.knows_timestamps or log.config.retention_ms < 0 or not log.config.deletes_by_retention:
        return None
    return oldest if log.may_lose_segments and not _lacks_files(log, oldest) else None


def _lacks_files(log: PartitionLog, segment: Segment) -> bool:
    """Whether the segment's files could not be created, because the disk was full."""
    return log.is_halted and segment.file is None and not segment.end_bytes


def _deletable_count(log: PartitionLog, count: int) -> int:
    """Return how many of the `count` oldest segments may be deleted. The last segments of a halted log may have no files,
    and a folder without any would begin at offset 0 after a crash."""
    if not log.is_halted:
        return count
    return min(count, max((at for at, segment in enumerate(log.segments) if segment.end_bytes), default=0))


def _extent(log: PartitionLog, segment: Segment, age: SegmentAge | None) -> SegmentExtent:
    following = log.segments.after(segment)
    newest_ms: int | None = None
    if segment.knows_timestamps and segment.max_timestamp > NO_TIMESTAMP:
        newest_ms = segment.max_timestamp
    elif age is not None:
        is_as_it_was = age.size_bytes == segment.end_bytes
        newest_ms = age.newest_ms if is_as_it_was else log.environment.clock.wall_ms()
    return SegmentExtent(
        log.offsets.next_offset if following is None else following.base_offset, segment.end_bytes, newest_ms
    )


async def _load_ages(log: PartitionLog, segments: Sequence[Segment], ages: dict[Segment, SegmentAge]) -> None:
    """Read the ages of segments that were not opened yet, or whose records have no timestamps."""
    environment = log.environment
    job = partial(segment_ages, environment.filesystem, segments, log.config.index_interval_bytes)
    # No append may open the active segment meanwhile, and an awaited segment gets its files only then.
    has_to_queue = log.segments.active in segments or any(segment.is_awaited for segment in segments)
    run = environment.queue.run if has_to_queue else environment.readers.run
    try:
        found = await run(job)
    except FileNotFoundError as error:
        if not any(segment.is_removed or _lacks_files(log, segment) for segment in segments):
            log.writer.refusals.fail(error)
    except OSError as error:
        log.writer.refusals.fail(error)
    else:
        ages.update(zip(segments, found, strict=True))
        for segment, age in zip(segments, found, strict=True):
            segment.learn_age(age)


async def _write_missing_snapshot(log: PartitionLog) -> bool:
    """Write and flush a snapshot of the current producers, after the records that it describes. False when the log was
    closed meanwhile (its folder may have another name) or truncated. Raises KAFKA_STORAGE_ERROR."""
    end_offset, snapshot, truncations_count = (
        log.offsets.next_offset,
        log.producers.snapshot(),
        log.offsets.truncations_count,
    )
    if snapshot is None or log.is_halted:  # it contains producers of refused batches until `resume`
        return False
    await log.flush()
    if (
        not log.may_lose_segments
        or log.offsets.truncations_count != truncations_count
        or log.offsets.recovery_point < end_offset
    ):
        return False
    await log.writer.files.write_snapshot(log.directory, snapshot, end_offset)
    if not log.may_lose_segments or log.offsets.truncations_count != truncations_count or log.is_halted:
        return False
    log.producers.lacks_snapshot = False
    return True


async def delete_segments_before(log: PartitionLog, offset: int) -> int:
    """Set aside the segments that hold nothing at or above `offset`, never the active one; returns how many.

    Returns 0 when they hold the only record of some producers. Raises KAFKA_STORAGE_ERROR.
    """
    is_due = log.producers.lacks_snapshot and log.segments.first.base_offset < offset
    if is_due and not await _write_missing_snapshot(log):
        return 0  # the next retention run repeats it
    with log.writer.refusals.of_io_errors():
        if len(log.producers.states):
            offset = await log.environment.queue.run(partial(_last_known_start, log, list(log.segments), offset))
            if not log.may_lose_segments:
                return 0
        return await drop_segments(
            log.segments,
            log.reading.reader,
            log.environment,
            offset=offset,
            delay_ms=log.config.file_delete_delay_ms,
            on_truncated=partial(_begin_at, log),
        )


def _last_known_start(log: PartitionLog, segments: Sequence[Segment], offset: int) -> int:
    """A job: find the base offset of the newest segment, up to `offset`, that has a snapshot of the producers before it. A
    segment has none when it was begun for records that had waited until the segment before was opened."""
    starts = [segment for segment in segments if segment.base_offset <= offset]
    has_snapshot = (each for each in reversed(starts) if log.environment.filesystem.exists(each.path(SNAPSHOT_SUFFIX)))
    return next(has_snapshot, segments[0]).base_offset


def _begin_at(log: PartitionLog, offset: int) -> None:
    """Note that the first segment begins at `offset` now."""
    log.offsets.recovery_point = max(log.offsets.recovery_point, offset)
    raise_log_start_offset(log, offset)
