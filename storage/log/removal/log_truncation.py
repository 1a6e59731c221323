"""Truncates a log at its end: for a follower, and after the disk was full. `segment_truncation` changes files.

    truncate_to, truncate_fully_and_start_at    remove what the leader does not have
    resume                                      remove what refused writes left behind the log end of a halted log

Rules: runs on the event loop; one truncation at a time, in a task of its own, so that it completes even when its caller is
cancelled. Nobody appends meanwhile. What a log knows of its truncations is in its `TruncationState`.
Invariants: no write is pending while segments are truncated; offsets, epochs and producers are those of the new end before
the next append; a recovery point or first dirty offset that falls is in its checkpoint before it.
Source: Kafka UnifiedLog.truncateTo, truncateFullyAndStartAt; none for a full disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from protocol.errors import KafkaError
from storage.log.partition_log import PartitionLog
from storage.log.producers.producer_state import NO_PRODUCERS
from storage.log.removal.segment_truncation import (
    drop_segments_without_files,
    producers_after_truncation,
    restart_segments,
    truncate_segments,
)

logger = logging.getLogger(__name__)

# --- as a follower ---


async def truncate_to(log: PartitionLog, offset: int) -> None:
    """Remove everything at or above `offset`. The caller appends nothing meanwhile. Raises KAFKA_STORAGE_ERROR."""
    await _run_shielded(log, partial(_truncate, log, offset))


async def truncate_fully_and_start_at(log: PartitionLog, offset: int) -> None:
    """Remove all records and begin again at `offset`. The caller appends nothing meanwhile. Raises KAFKA_STORAGE_ERROR."""
    await _run_shielded(log, partial(_begin_anew, log, offset))


async def _truncate(log: PartitionLog, offset: int) -> None:
    """Raises OSError."""
    if offset < log.segments.first.base_offset:
        await _begin_anew(log, offset)
    elif offset >= log.offsets.log_end_offset:
        log.epochs.truncate_from_end(offset)
    else:
        await _truncate_at(log, offset)


async def _run_shielded(log: PartitionLog, truncate: Callable[[], Awaitable[None]]) -> None:
    """Complete a truncation even when its caller is cancelled: with truncated files and the former state in memory, a log
    would leave producers and epochs of removed records to the next start. Raises KafkaError."""
    tasks, state = log.environment.tasks, log.truncation
    await state.wait()
    if tasks.is_closed:
        raise log.closed_error()
    state.begin()
    task = tasks.spawn(_outcome_of(log, truncate), name=f"truncate {log.name}")
    task.add_done_callback(lambda _: state.end())
    error = await asyncio.shield(task)
    if error is not None:
        raise error


async def _outcome_of(log: PartitionLog, truncate: Callable[[], Awaitable[None]]) -> KafkaError | None:
    """Return the error of a truncation, so that an expected refusal does not end a task with an exception."""
    writer = log.writer
    try:
        await writer.pending.await_idle()
        refusal = writer.refusals.error
        if refusal is not None:
            return refusal.again()
        with writer.refusals.of_io_errors():
            await truncate()
            await _checkpoint_if_fallen(log)
    except KafkaError as error:
        return error
    return None


# --- after the disk was full ---


async def resume(log: PartitionLog) -> None:
    """Accept records again: truncate what refused writes left behind the log end, and reload the producers. While there is
    still no room, the log stays halted.

    Nothing happens once a close has begun, because the folder may have another name afterwards. A close that begins later
    waits.
    """
    state = log.truncation
    if not log.is_halted or log.is_closing or state.is_in_progress:
        return
    state.begin()
    try:
        await log.environment.queue.drain()  # the writes queued behind the refused one, which were dropped
        await log.writer.pending.await_idle()
        if log.writer.refusals.failure is None:
            await _repair_halted(log)
    except KafkaError as error:
        logger.info("log remains halted: topic=%s partition=%d error=%s", log.topic, log.partition, error)
    finally:
        state.end()


async def _repair_halted(log: PartitionLog) -> None:
    """Raises KAFKA_STORAGE_ERROR."""
    writer, refusals = log.writer, log.writer.refusals
    refusals.accept_jobs()
    log.epochs.mark_unsaved()
    with refusals.of_io_errors():
        await drop_segments_without_files(log.segments, log.environment)
        await _truncate_at(log, log.offsets.log_end_offset)
        await writer.pending.await_idle()
        await _checkpoint_if_fallen(log)
    if refusals.is_sound:
        refusals.resume(log.environment.space.refusal(log.topic, is_own=False))
        logger.info(
            "log accepts records again: topic=%s partition=%d end_offset=%d",
            log.topic,
            log.partition,
            log.offsets.log_end_offset,
        )


# --- the steps of a truncation ---


async def _truncate_at(log: PartitionLog, offset: int) -> None:
    """Raises OSError."""
    records_end = await truncate_segments(
        log.segments,
        log.reading.reader,
        log.environment,
        offset=offset,
        log_start_offset=lambda: log.offsets.log_start_offset,
        index_interval_bytes=log.config.index_interval_bytes,
        on_truncated=partial(_end_at, log),
    )
    if records_end is None:
        await _begin_anew(log, offset)
        return
    if log.segments.active.end_bytes and records_end < offset:
        _note_gap(log)
    log.writer.has_written = True
    log.epochs.truncate(offset)
    await _recall_producers_at(log, offset)


def _note_gap(log: PartitionLog) -> None:
    """Note that the log was truncated within a gap and continues behind it, perhaps in another segment. At a start, only
    the log's entry in the cleaner's checkpoint distinguishes this from a tear."""
    offsets = log.offsets
    if offsets.first_dirty_offset is None:
        offsets.first_dirty_offset = offsets.log_start_offset
        offsets.needs_checkpoint = True


async def _recall_producers_at(log: PartitionLog, offset: int) -> None:
    """Reload the producers after a truncation at `offset`. A log that had none since its start has none then, as in Kafka:
    the snapshot of a clean stop says so, and no record has to be read. Raises OSError."""
    producers = log.producers
    if producers.states is not NO_PRODUCERS:
        producers.is_known = False  # if a stop does not wait for this, the next start reads the files again
        states = await producers_after_truncation(log.segments, log.environment, offset=offset)
        producers.is_known = True
        states.remember(producers.states)
        producers.adopt(states)
    producers.lacks_snapshot = len(producers.states) > 0


async def _begin_anew(log: PartitionLog, offset: int) -> None:
    try:
        await restart_segments(log.segments, log.environment, offset=offset, on_truncated=partial(_begin_again_at, log))
    finally:
        log.epochs.clear()  # after the records: a crash in between finds both unchanged


async def _checkpoint_if_fallen(log: PartitionLog) -> None:
    """Write the recovery point to its checkpoint when it has fallen. After a crash, a start checks the log only from there
    on, so the next append must not lie below it, nor below the first dirty offset. A flush may still move the point until
    the truncation, so its value then counts. Raises OSError."""
    if log.offsets.needs_checkpoint:
        refusal = await log.environment.checkpoint_recovery_points(log.directory)
        if refusal is not None:
            raise refusal
        log.offsets.needs_checkpoint = False


def _end_at(log: PartitionLog, offset: int) -> None:
    log.writer.end_at(offset)
    _note_end(log, offset)


def _note_end(log: PartitionLog, offset: int) -> None:
    log.truncation.note_end(offset)
    log.commit(log.offsets.high_watermark)
    log.reading.reader.forget_positions()


def _begin_again_at(log: PartitionLog, offset: int) -> None:
    log.writer.begin_again_at(offset)
    _note_end(log, offset)
    log.truncation.lowest_offset = 0
    log.producers.clear()
