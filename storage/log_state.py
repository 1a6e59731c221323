"""What a partition's log consists of, and what holds for it as a whole: offsets, leader epochs, durability, failure.

The lowest of three layers of one object: `LogState` here, `LogEnds` (records that leave, at either end), `PartitionLog`
(records that come, and that are read).

Rules, invariants and sources: see `storage.log`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from storage.folder_files import PARTITION_METADATA_FILE, format_partition_metadata
from storage.free_space import NoRoom
from storage.leader_epoch_file import LeaderEpochFile
from storage.loading import LoadedLog
from storage.log_environment import LogEnvironment
from storage.log_reader import LogReader, Segments
from storage.log_writer import LogWriter
from storage.producer_state import ProducerStates
from storage.segment import random_roll_jitter_ms
from storage.validation import PlainBatchRules, ValidationLevel

logger = logging.getLogger(__name__)


class StartListener(Protocol):
    """The partition around a log."""

    def on_start_raised(self) -> None:
        """The log begins later than it did: retention does that without being asked to."""


class _Nobody:
    """Whom a log tells that has no partition around it."""

    def on_start_raised(self) -> None: ...


_NOBODY = _Nobody()


class LogState:
    """See the module."""

    __slots__ = (
        "_environment",
        "_epoch_file",
        "_high_watermark",
        "_is_closed",
        "_lacks_snapshot",
        "_producers",
        "_reader",
        "_rules",
        "_segments",
        "_truncation",
        "_validation",
        "_writer",
        "config",
        "directory",
        "first_dirty_offset",
        "flushed_ms",
        "log_start_offset",
        "lowest_cut",
        "next_offset",
        "partition",
        "start_listener",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        directory: str,
        config: LogConfig,
        environment: LogEnvironment,
        loaded: LoadedLog,
    ) -> None:
        """Use `PartitionLog.open`."""
        self.topic = topic
        self.partition = partition
        self.topic_id = loaded.topic_id
        self.directory = directory
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        # Below it the log was compacted; None when it never was. The cleaner moves it on and keeps it in a checkpoint.
        self.first_dirty_offset: int | None = None
        self._high_watermark = loaded.log_start_offset
        self.next_offset = loaded.log_end_offset
        self._environment = environment
        self._validation = ValidationLevel(environment.validation)
        self._rules = PlainBatchRules(config, self._validation)
        self._producers = loaded.producers
        self._segments = Segments(loaded.segments)
        self._writer = LogWriter(self, self._segments, environment, loaded.log_end_offset, loaded.recovery_point)
        self._writer.has_written = self._lacks_snapshot = loaded.lacks_snapshot
        self._epoch_file = LeaderEpochFile(
            directory,
            loaded.epochs,
            self._writer,
            # Whoever moved the recovery point to the end has seen to it.
            is_durable=loaded.recovery_point == loaded.log_end_offset,
        )
        self._reader = LogReader(self._segments, environment, config.index_interval_bytes)
        self._is_closed = False
        # None unless a cut is under way, done when it is through: `LogEnds.truncate_to`, or of what a full disk left behind.
        self._truncation: asyncio.Future[None] | None = None
        # How far the end was cut since a copy of the log was cut as well; None: not. A copy cannot always tell by epochs:
        # those of what was cut off may be none of the log's any more.
        self.lowest_cut: int | None = None
        self.on_room_changed()
        self.start_listener: StartListener = _NOBODY
        self.flushed_ms = environment.clock.monotonic_ms()
        self._segments.active.roll_jitter_ms = random_roll_jitter_ms(config, environment.randomness)

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        return f"<PartitionLog {self._name} [{self.log_start_offset}, {self.log_end_offset})>"

    # --- state ---

    @property
    def log_end_offset(self) -> int:
        """Behind the last record that is written."""
        return self._writer.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Below it records are committed. Replication moves it; the log keeps it, and the log manager checkpoints it."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self.commit(offset)

    def commit(self, high_watermark: int) -> int:
        """Records below `high_watermark` are committed. Answers the last stable offset: where read_committed ends."""
        self._high_watermark = high_watermark
        producers = self._producers
        if not producers.has_transactions:
            return high_watermark
        producers.on_high_watermark(high_watermark)
        unstable_offset = producers.first_unstable_offset
        if unstable_offset is None:
            return high_watermark
        return min(max(unstable_offset, self.log_start_offset), high_watermark)

    @property
    def recovery_point(self) -> int:
        return self._writer.recovery_point

    @property
    def failure(self) -> KafkaError | None:
        """Why the log takes no more, if it does not."""
        return self._writer.failure

    @property
    def has_room(self) -> bool:
        """Whether records are taken, as far as the disk's room goes."""
        return not isinstance(self._writer.refusal, NoRoom)

    @property
    def is_halted(self) -> bool:
        """The disk had no room for a write: `LogEnds.go_on` is due when it may have some."""
        return self._writer.halted is not None

    def on_room_changed(self) -> None:
        """The log directory is fuller than its floor allows, or it is not any more."""
        writer = self._writer
        if writer.failure is None and writer.halted is None:
            writer.refusal = self._environment.space.refusal(self.topic, is_own=False)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def is_empty(self) -> bool:
        """It has no bytes, and nothing that could be deleted."""
        segments = self._segments
        return len(segments) == 1 and not segments.active.end_bytes

    @property
    def segments(self) -> Segments:
        return self._segments

    @property
    def producers(self) -> ProducerStates:
        return self._producers

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction begins, None without one."""
        return self._producers.first_unstable_offset

    # --- leader epochs ---

    def assign_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on are of `epoch`. No effect when the log knows of this or a later epoch."""
        self._epoch_file.assign(epoch, start_offset)

    def forget_unused_epochs(self) -> None:
        """Epochs in which nothing was appended, now that this log follows another: its leader may not know them, and
        would have it cut where it ends."""
        self._epoch_file.truncate_from_end(self.next_offset)

    @property
    def has_unsaved_epochs(self) -> bool:
        """The epoch of the last record is not in the file."""
        return self._epoch_file.lacks_epoch_of(self.log_end_offset - 1)

    async def save_epochs(self) -> None:
        """Bring the epochs' file up to date."""
        self._epoch_file.save()
        await self._writer.settle()

    def keep_epochs(self) -> None:
        """See `WriterHost`."""
        self._epoch_file.keep()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch at or below `epoch`, where it ends); (-1, -1) when none is known. KIP-101, KIP-279."""
        return self._epoch_file.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch with a place in the log, -1 without any."""
        return self._epoch_file.epochs.latest_epoch

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 when it is not known."""
        return self._epoch_file.epochs.epoch_for(offset)

    async def adopt_topic_id(self, topic_id: bytes) -> None:
        """A log of before KIP-516 learns its topic's id."""
        self.topic_id = topic_id
        self._writer.write_file(f"{self.directory}/{PARTITION_METADATA_FILE}", format_partition_metadata(topic_id))
        await self._writer.settle()

    # --- durability ---

    def producer_snapshot(self, offset: int) -> bytes | None:
        """See `WriterHost`."""
        return self._producers.to_snapshot() if self.next_offset <= offset else None

    async def settle(self) -> None:
        """Return when every append made so far is written, or has failed."""
        await self._writer.settle()

    async def flush(self) -> None:
        """Everything appended before this call is on the disk when it returns. Raises KAFKA_STORAGE_ERROR."""
        self.flushed_ms = self._environment.clock.monotonic_ms()
        await self._writer.flush(self.next_offset)
        if self._writer.failure is not None:
            raise self._writer.failure

    async def finish(self) -> None:
        """Leave the folder as a clean start wants it, and stay open. Raises KAFKA_STORAGE_ERROR."""
        await self._writer.settle()
        await self._writer.finish(self.producer_snapshot(self.log_end_offset))
        error = self._writer.failure or self._writer.halted
        if error is not None:
            raise error

    async def when_cut(self) -> None:
        """Wait for a cut that is under way."""
        while self._truncation is not None:
            await asyncio.shield(self._truncation)

    async def close(self, *, flush: bool = True) -> None:
        """Wait for what is on its way and close the files. `flush`: leave the folder as a clean start wants it."""
        if self._is_closed:
            return
        await self.when_cut()
        await self._writer.settle()
        if flush:
            await self._writer.finish(self.producer_snapshot(self.log_end_offset))
        if self._writer.failure is not None or self._writer.halted is not None:
            await self._environment.queue.drain()  # its thread may have a write in hand that was dropped here
        self._is_closed = True
        for segment in self._segments:
            self._environment.open_segments.leave(segment)
        error = self._writer.failure or self._writer.halted
        if error is not None and flush:
            raise error

    def fail(self, cause: OSError) -> None:
        """Take no more: the log directory is offline."""
        self._writer.fail(cause)

    def on_write_failed(self, error: KafkaError, cause: OSError) -> None:
        """See `WriterHost`."""
        self.next_offset = self.log_end_offset
        logger.error("log failed: topic=%s partition=%d error=%r", self.topic, self.partition, cause)
        self._environment.on_failed(self.directory, cause)

    def on_halted(self, cause: OSError) -> None:
        """See `WriterHost`."""
        self.next_offset = self.log_end_offset
        logger.warning("log halted: topic=%s partition=%d error=%s", self.topic, self.partition, cause)
        self._environment.on_no_room(self.directory, cause)

    def _closed(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self._name} is closed.")

    @contextmanager
    def _failing_for_good(self) -> Iterator[None]:
        """An IO error in here is the end of the log, or halts it where there was no room. Raises KAFKA_STORAGE_ERROR."""
        try:
            yield
        except OSError as error:
            self._writer.on_refused(error)
            refusal = self._writer.failure or self._writer.halted
            assert refusal is not None
            raise refusal from error
