"""What a partition's log consists of, and what holds for it as a whole: offsets, leader epochs, durability, failure.

The lowest of three layers of one object: `LogState` here, `LogEnds` (records that leave, at either end), `PartitionLog`
(records that come, and that are read).

A log is at rest until something is done with it: of ten thousand partitions few are written to or read. At rest it is on
the disk as a whole, nothing is on its way, and it has no writer; its other parts are made when they are first asked for,
too. What looks at all logs, again and again, asks them in a way that makes no part.

Rules, invariants and sources: see `storage.log.partition_log`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.reasons import reason_of
from storage.folder_files import PARTITION_METADATA_FILE, format_partition_metadata, partition_folder
from storage.free_space import NoRoom
from storage.log.cold_reading import ColdReading
from storage.log.leader_epoch_file import LeaderEpochFile
from storage.log.loading import LoadedLog, tell_of_lost_end
from storage.log.log_environment import LogEnvironment
from storage.log.log_reader import LogReader
from storage.log.log_writer import LogWriter
from storage.log.producer_state import NO_PRODUCERS, ProducerStates
from storage.log.transaction_verifications import TransactionVerifications
from storage.log.validation import PlainBatchRules, ValidationLevel
from storage.segments.segment import OpenedSegment, Segment, random_roll_jitter_ms
from storage.segments.segment_list import Segments

logger = logging.getLogger(__name__)


class StartListener(Protocol):
    """The partition around a log."""

    def on_start_raised(self) -> None:
        """The log begins later than it did: retention does that without being asked to."""


class _Nobody:
    """Whom a log tells that has no partition around it."""

    def on_start_raised(self) -> None: ...


_NOBODY = _Nobody()


@lru_cache(maxsize=4096)
def _shared(topic_id: bytes) -> bytes:
    """One object for all partitions of a topic."""
    return topic_id


class LogState:
    """See the module."""

    __slots__ = (
        "_created_ms",
        "_directory",
        "_environment",
        "_epoch_file",
        "_has_checked_end",
        "_high_watermark",
        "_is_at_rest",
        "_is_blank",
        "_is_closed",
        "_is_closing",
        "_knows_producers",
        "_lacks_snapshot",
        "_producers",
        "_reader",
        "_rules",
        "_segments",
        "_truncation",
        "_verifications",
        "_writer",
        "config",
        "first_dirty_offset",
        "key",
        "log_start_offset",
        "next_offset",
        "partition",
        "start_listener",
        "topic",
        "topic_id",
    )

    # Made when first asked for, see `__getattr__`.
    _reader: LogReader
    _rules: PlainBatchRules
    _segments: Segments
    _writer: LogWriter

    def __init__(
        self,
        key: TopicPartition,
        directory: str,
        config: LogConfig,
        environment: LogEnvironment,
        loaded: LoadedLog,
    ) -> None:
        """Use `PartitionLog.open`."""
        # (topic, partition): one object for all who look the log up by it.
        self.key = key
        self.topic, self.partition = key
        self.topic_id = _shared(loaded.topic_id)
        # None for the folder that the partition's name tells.
        self._directory = directory if directory != f"{environment.path}/{partition_folder(*key)}" else None
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        # Below it the log was compacted; None when it never was, and has no gap between segments. The cleaner moves it on and
        # keeps it in a checkpoint.
        self.first_dirty_offset: int | None = None
        self._high_watermark = loaded.log_start_offset
        self.next_offset = loaded.log_end_offset
        self._environment = environment
        self._producers = loaded.producers if len(loaded.producers) else NO_PRODUCERS
        self._verifications: TransactionVerifications | None = None
        self._lacks_snapshot = loaded.lacks_snapshot
        # False of a log that was cut until its files were asked for its producers.
        self._knows_producers = True
        self._epoch_file = LeaderEpochFile(
            loaded.epochs,
            self,
            # Whoever moved the recovery point to the end has seen to it.
            is_durable=loaded.recovery_point == loaded.log_end_offset,
        )
        # False until the file of the last segment has said where it ends: after a clean stop a checkpoint alone does.
        self._has_checked_end = False
        self._is_closed = self._is_closing = False
        # None unless a cut is under way, done when it is through: `LogEnds.truncate_to`, or of what a full disk left behind.
        self._truncation: asyncio.Future[None] | None = None
        self.start_listener: StartListener = _NOBODY
        self._created_ms = loaded.segments[-1].created_ms
        # It has one segment, without bytes, which nobody has asked for.
        self._is_blank = loaded.is_blank
        if not self._is_blank:
            self._segments = Segments(loaded.segments)
            self._segments.active.roll_jitter_ms = random_roll_jitter_ms(config, environment.randomness)
        self._is_at_rest = loaded.recovery_point == loaded.log_end_offset and not loaded.lacks_snapshot
        if not self._is_at_rest:
            self._make_writer(loaded.recovery_point, has_written=loaded.lacks_snapshot)

    # --- parts ---

    if not TYPE_CHECKING:  # to a type checker every attribute would be one of these

        def __getattr__(self, name: str) -> Any:
            """Of a slot that is not set: a part that nobody has asked for yet."""
            if name == "_writer":
                self._make_writer(self.next_offset, has_written=False)
            elif name == "_segments":
                self._segments = Segments([self._blank_segment()])
                self._is_blank = False
            elif name == "_reader":
                segments, environment = self._segments, self._environment
                cold = ColdReading(segments, environment, self.config.index_interval_bytes, self.check_end)
                self._reader = LogReader(segments, environment, cold)
            elif name == "_rules":
                self._renew_rules()
            else:
                raise AttributeError(f"a log has no {name}")
            return getattr(self, name)

    def _make_writer(self, recovery_point: int, *, has_written: bool) -> None:
        self._writer = LogWriter(self, self._segments, self._environment, self.next_offset, recovery_point)
        self._writer.has_written = has_written
        self._is_at_rest = False
        self.on_room_changed()

    def _blank_segment(self) -> Segment:
        return Segment(
            self.directory,
            self.next_offset,
            size_bytes=0,
            created_ms=self._created_ms,
            roll_jitter_ms=random_roll_jitter_ms(self.config, self._environment.randomness),
        )

    def _renew_rules(self) -> PlainBatchRules:
        """The topic's settings are others."""
        rules = self._rules = PlainBatchRules(self.config, ValidationLevel(self._environment.validation))
        return rules

    @property
    def directory(self) -> str:
        """Its folder."""
        return self._directory or f"{self._environment.path}/{partition_folder(*self.key)}"

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        return f"<PartitionLog {self._name} [{self.log_start_offset}, {self.log_end_offset})>"

    # --- state ---

    @property
    def log_end_offset(self) -> int:
        """Behind the last record that is written."""
        return self.next_offset if self._is_at_rest else self._writer.log_end_offset

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
        return self.next_offset if self._is_at_rest else self._writer.recovery_point

    @property
    def failure(self) -> KafkaError | None:
        """Why the log takes no more, if it does not."""
        return None if self._is_at_rest else self._writer.failure

    @property
    def has_room(self) -> bool:
        """Whether records are taken, as far as the disk's room goes."""
        refusal = self._room_refusal() if self._is_at_rest else self._writer.refusal
        return not isinstance(refusal, NoRoom)

    @property
    def halted(self) -> NoRoom | None:
        """What halted the log, if it has halted: the disk had no room for a write, and `LogEnds.go_on` is due when it may
        have some."""
        return None if self._is_at_rest else self._writer.halted

    @property
    def is_halted(self) -> bool:
        return self.halted is not None

    def on_room_changed(self) -> None:
        """The log directory is fuller than its floor allows, or it is not any more."""
        if self._is_at_rest:
            return  # its writer will ask
        writer = self._writer
        if writer.failure is None and writer.halted is None:
            writer.refusal = self._room_refusal()

    def _room_refusal(self) -> KafkaError | None:
        """What the directory's room has against records of clients."""
        return self._environment.space.refusal(self.topic, is_own=False)

    @property
    def size_bytes(self) -> int:
        return 0 if self._is_blank else self._segments.size_bytes

    @property
    def is_empty(self) -> bool:
        """It has no bytes, and nothing that could be deleted."""
        return self._is_blank or (len(self._segments) == 1 and not self._segments.active.end_bytes)

    @property
    def segments(self) -> Segments:
        """A part: whoever looks at all logs asks for one of the three below."""
        return self._segments

    @property
    def segments_count(self) -> int:
        return 1 if self._is_blank else len(self._segments)

    @property
    def base_offset(self) -> int:
        """Where its files begin: at or before `log_start_offset`."""
        return self.next_offset if self._is_blank else self._segments.first.base_offset

    @property
    def has_open_file(self) -> bool:
        """Its active segment is open."""
        return not self._is_blank and self._segments.active.file is not None

    @property
    def producers(self) -> ProducerStates:
        """To look at: those without any share one object."""
        return self._producers

    def recall_producers(self, before: ProducerStates) -> bool:
        """See `ProducerStates.recall`."""
        return len(before) > 0 and self._own_producers().recall(before, self.log_end_offset)

    def _own_producers(self) -> ProducerStates:
        """Those, to change them."""
        if self._producers is NO_PRODUCERS:
            self._producers = ProducerStates()
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
        return not self._is_at_rest and self._epoch_file.lacks_epoch_of(self.log_end_offset - 1)

    async def save_epochs(self) -> None:
        """Bring the epochs' file up to date."""
        self._epoch_file.save()
        await self._catch_up()

    def keep_epochs(self) -> None:
        """See `WriterContext`."""
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
        self.topic_id = _shared(topic_id)
        self.write_file(PARTITION_METADATA_FILE, format_partition_metadata(topic_id))
        await self._catch_up()

    def write_file(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file of the log's folder, see `LogWriter.write_file`."""
        self._writer.write_file(f"{self.directory}/{name}", content, durable=durable)

    # --- durability ---

    def producer_snapshot(self, offset: int) -> bytes | None:
        """See `WriterContext`."""
        return self._producers.to_snapshot() if self._knows_producers and self.next_offset <= offset else None

    def check_end(self, opened: OpenedSegment) -> None:
        """See `WriterContext`."""
        if not self._has_checked_end:
            self._has_checked_end = True
            if opened.problem is None and opened.next_offset < self.log_end_offset:
                tell_of_lost_end(self.directory, opened.next_offset, self.recovery_point)

    async def settle(self) -> None:
        """Return when every append made so far is written, or has failed."""
        if not self._is_at_rest:
            await self._writer.settle()

    async def _catch_up(self) -> None:
        """Return when the files that were to be written are. Of a log that appends all the time nothing else ends."""
        if not self._is_at_rest:
            await self._writer.catch_up()

    async def flush(self) -> None:
        """Everything appended before this call is on the disk when it returns. Raises KAFKA_STORAGE_ERROR."""
        if self._is_at_rest:
            return
        writer = self._writer
        writer.flushed_ms = self._environment.clock.monotonic_ms()
        await writer.flush(self.next_offset)
        if writer.failure is not None:
            raise writer.failure.again()

    def is_flush_due(self, now_ms: int) -> bool:
        """There is something to flush, and `flush.ms` has passed since the last time. `now_ms` is monotonic."""
        if self._is_at_rest:
            return False
        writer = self._writer
        return writer.log_end_offset > writer.recovery_point and now_ms - writer.flushed_ms >= self.config.flush_ms

    async def finish(self) -> None:
        """Leave the folder as a clean start wants it, and stay open. Raises KAFKA_STORAGE_ERROR."""
        if self._is_at_rest:
            return
        await self._writer.settle()
        await self._writer.finish(self.producer_snapshot(self.log_end_offset))
        error = self._writer.failure or self._writer.halted
        if error is not None:
            raise error.again()

    async def when_cut(self) -> None:
        """Wait for a cut that is under way."""
        while self._truncation is not None:
            await asyncio.shield(self._truncation)

    async def close(self, *, flush: bool = True) -> None:
        """Wait for what is on its way and close the files. `flush`: leave the folder as a clean start wants it."""
        if self._is_closed:
            return
        self._is_closing = True
        await self.when_cut()
        await self.settle()
        if self._is_at_rest:
            self._leave_segments()
            return
        writer = self._writer
        if flush:
            await writer.finish(self.producer_snapshot(self.log_end_offset))
        if writer.failure is not None or writer.halted is not None:
            await self._environment.queue.drain()  # its thread may have a write in hand that was dropped here
        self._leave_segments()
        error = writer.failure or writer.halted
        if error is not None and flush:
            raise error.again()

    def _leave_segments(self) -> None:
        self._is_closed = True
        if not self._is_blank:
            for segment in self._segments:
                self._environment.open_segments.leave(segment)

    def fail(self, cause: OSError) -> None:
        """Take no more, and have the log directory taken offline."""
        self._writer.fail(cause)

    def give_up(self, cause: OSError) -> None:
        """The log directory is offline: take no more, and open no file: the folder may be another's soon."""
        self.leave_folder()
        self._writer.fail(cause, is_known=True)

    def on_given_up(self) -> None:
        """See `WriterContext`."""
        self.next_offset = self.log_end_offset

    def leave_folder(self) -> None:
        """Of a log that is held, or has failed: its folder is about to have another name. What is open can be read still;
        whoever opens a file now gets KAFKA_STORAGE_ERROR, and asks again."""
        for segment in self._segments:
            segment.is_gone = True

    def on_write_failed(self, error: KafkaError, cause: OSError) -> None:
        """See `WriterContext`."""
        self.next_offset = self.log_end_offset
        logger.error("log failed: topic=%s partition=%d error=%s", self.topic, self.partition, reason_of(cause))
        self._environment.on_failed(self.directory, cause)

    def on_halted(self, cause: OSError) -> None:
        """See `WriterContext`."""
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
            raise refusal.again() from error
