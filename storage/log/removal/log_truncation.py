"""Truncates one log at its end: for a follower, and after the disk was full. `segment_truncation` changes files.

    truncate_to, truncate_fully_and_start_at    remove what the leader does not have
    resume                                      remove what refused writes left behind the log end of a halted log

Rules: runs on the event loop; one truncation at a time, in a task of its own, so that it completes even when its caller is
cancelled. Nobody appends meanwhile.
Invariants: no write is pending while segments are truncated; offsets, epochs and producers are those of the new end before
the next append; a recovery point or first dirty offset that falls is in its checkpoint before it.
Source: Kafka UnifiedLog.truncateTo, truncateFullyAndStartAt; none for a full disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from storage.log.producers.producer_state import NO_PRODUCERS
from storage.log.removal.segment_truncation import (
    drop_segments_without_files,
    producers_after_truncation,
    restart_segments,
    truncate_segments,
)

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class LogTruncation:
    """The truncations of one log, made at the first use."""

    __slots__ = ("_ended", "_log", "lowest_offset")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        # Done when the truncation in progress has ended; None without one.
        self._ended: asyncio.Future[None] | None = None
        self.lowest_offset: int | None = None
        """The lowest offset that the log was truncated to since a copy of it was truncated as well; None without one. A copy
        cannot always find that by epochs: the epochs of the removed records may be unknown to the log by now."""

    @property
    def is_in_progress(self) -> bool:
        return self._ended is not None

    @property
    def count(self) -> int:
        """The number of truncations: records read before the last one may not be in the log any more."""
        log = self._log
        return 0 if log.is_at_rest else log.writer.durability.truncations

    async def wait(self) -> None:
        """Return when no truncation is in progress."""
        while self._ended is not None:
            await asyncio.shield(self._ended)

    # --- as a follower ---

    async def truncate_to(self, offset: int) -> None:
        """Remove everything at or above `offset`. The caller appends nothing meanwhile. Raises KAFKA_STORAGE_ERROR."""
        await self._run_shielded(partial(self._truncate, offset))

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records and begin again at `offset`. The caller appends nothing meanwhile. Raises KAFKA_STORAGE_ERROR."""
        await self._run_shielded(partial(self._begin_anew, offset))

    async def _truncate(self, offset: int) -> None:
        """Raises OSError."""
        log = self._log
        if offset < log.segments.first.base_offset:
            await self._begin_anew(offset)
        elif offset >= log.log_end_offset:
            log.epochs.truncate_from_end(offset)
        else:
            await self._truncate_at(offset)

    async def _run_shielded(self, truncate: Callable[[], Awaitable[None]]) -> None:
        """Complete a truncation even when its caller is cancelled: with truncated files and the former state in memory, a log
        would leave producers and epochs of removed records to the next start. Raises KafkaError."""
        log = self._log
        tasks = log.environment.tasks
        await self.wait()
        if tasks.is_closed:
            raise log.closed_error()
        self._begin()
        task = tasks.spawn(self._outcome_of(truncate), name=f"truncate {log.name}")
        task.add_done_callback(lambda _: self._end())
        error = await asyncio.shield(task)
        if error is not None:
            raise error

    async def _outcome_of(self, truncate: Callable[[], Awaitable[None]]) -> KafkaError | None:
        """Return the error of a truncation, so that an expected refusal does not end a task with an exception."""
        writer = self._log.writer
        try:
            await writer.pending.await_idle()
            refusal = writer.refusals.error
            if refusal is not None:
                return refusal.again()
            with writer.refusals.of_io_errors():
                await truncate()
                await self._checkpoint_if_fallen()
        except KafkaError as error:
            return error
        return None

    def _begin(self) -> None:
        self._ended = asyncio.get_running_loop().create_future()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        assert ended is not None
        ended.set_result(None)

    # --- after the disk was full ---

    async def resume(self) -> None:
        """Accept records again: truncate what refused writes left behind the log end, and reload the producers. While there is
        still no room, the log stays halted.

        Nothing happens once a close has begun, because the folder may have another name afterwards. A close that begins later
        waits.
        """
        log = self._log
        if not log.is_halted or log.is_closing or self.is_in_progress:
            return
        self._begin()
        try:
            await log.environment.queue.drain()  # the writes queued behind the refused one, which were dropped
            await log.writer.pending.await_idle()
            if log.writer.refusals.failure is None:
                await self._repair_halted()
        except KafkaError as error:
            logger.info("log remains halted: topic=%s partition=%d error=%s", log.topic, log.partition, error)
        finally:
            self._end()

    async def _repair_halted(self) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        log = self._log
        writer, refusals = log.writer, log.writer.refusals
        refusals.accept_jobs()
        log.epochs.mark_unsaved()
        with refusals.of_io_errors():
            await drop_segments_without_files(log.segments, log.environment)
            await self._truncate_at(log.log_end_offset)
            await writer.pending.await_idle()
            await self._checkpoint_if_fallen()
        if refusals.is_sound:
            refusals.resume(log.environment.space.refusal(log.topic, is_own=False))
            logger.info(
                "log accepts records again: topic=%s partition=%d end_offset=%d",
                log.topic,
                log.partition,
                log.log_end_offset,
            )

    # --- the steps of a truncation ---

    async def _truncate_at(self, offset: int) -> None:
        """Raises OSError."""
        log = self._log
        records_end = await truncate_segments(
            log.segments,
            log.reading.reader,
            log.environment,
            offset=offset,
            log_start_offset=lambda: log.log_start_offset,
            index_interval_bytes=log.config.index_interval_bytes,
            on_truncated=self._end_at,
        )
        if records_end is None:
            await self._begin_anew(offset)
            return
        if log.segments.active.end_bytes and records_end < offset:
            self._note_gap()
        log.writer.has_written = True
        log.epochs.truncate(offset)
        await self._recall_producers_at(offset)

    def _note_gap(self) -> None:
        """Note that the log was truncated within a gap and continues behind it, perhaps in another segment. At a start, only
        the log's entry in the cleaner's checkpoint distinguishes this from a tear."""
        log = self._log
        if log.first_dirty_offset is None:
            log.first_dirty_offset = log.log_start_offset
            log.writer.durability.needs_checkpoint = True

    async def _recall_producers_at(self, offset: int) -> None:
        """Reload the producers after a truncation at `offset`. A log that had none since its start has none then, as in Kafka:
        the snapshot of a clean stop says so, and no record has to be read. Raises OSError."""
        log = self._log
        producers = log.producers
        if producers.states is not NO_PRODUCERS:
            producers.is_known = False  # if a stop does not wait for this, the next start reads the files again
            states = await producers_after_truncation(log.segments, log.environment, offset=offset)
            producers.is_known = True
            states.remember(producers.states)
            producers.adopt(states)
        producers.lacks_snapshot = len(producers.states) > 0

    async def _begin_anew(self, offset: int) -> None:
        log = self._log
        try:
            await restart_segments(log.segments, log.environment, offset=offset, on_truncated=self._begin_again_at)
        finally:
            log.epochs.clear()  # after the records: a crash in between finds both unchanged

    async def _checkpoint_if_fallen(self) -> None:
        """Write the recovery point to its checkpoint when it has fallen. After a crash, a start checks the log only from there
        on, so the next append must not lie below it, nor below the first dirty offset. A flush may still move the point until
        the truncation, so its value then counts. Raises OSError."""
        durability = self._log.writer.durability
        if durability.needs_checkpoint:
            refusal = await self._log.environment.checkpoint_recovery_points(self._log.directory)
            if refusal is not None:
                raise refusal
            durability.needs_checkpoint = False

    def _end_at(self, offset: int) -> None:
        self._log.writer.end_at(offset)
        self._note_end(offset)

    def _note_end(self, offset: int) -> None:
        log = self._log
        self.lowest_offset = offset if self.lowest_offset is None else min(self.lowest_offset, offset)
        log.next_offset = offset
        log.has_checked_end = True  # a truncation may end among offsets that no batch has
        log.log_start_offset = min(log.log_start_offset, offset)  # the truncation may end among deleted records
        log.high_watermark = min(log.high_watermark, offset)
        if log.first_dirty_offset is not None and offset < log.first_dirty_offset:
            log.first_dirty_offset = offset
            log.writer.durability.needs_checkpoint = True  # otherwise a start would take the next records for clean
        log.reading.reader.forget_positions()

    def _begin_again_at(self, offset: int) -> None:
        log = self._log
        log.log_start_offset = offset
        log.writer.begin_again_at(offset)
        self._note_end(offset)
        self.lowest_offset = 0
        log.producers.clear()
        log.high_watermark = offset
