"""The state of a partition's log: offsets, leader epochs, durability, failure.

The lowest of three layers of one object: `LogState` here, `LogEnds` (removes records at either end), `PartitionLog` (appends
and reads records).

A log is idle until it is used: of ten thousand partitions few are written to or read. An idle log is completely on the disk,
has no pending writes, and has no writer; its other parts are created at first use, too. Periodic tasks over all logs use only
properties that create no part.

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
from runtime.error_texts import reason_of
from storage.folder_files import PARTITION_METADATA_FILE, format_partition_metadata, partition_folder
from storage.free_space import NoRoom
from storage.log.cold_reading import ColdReading
from storage.log.leader_epoch_file import LeaderEpochFile
from storage.log.loading import LoadedLog, log_lost_end
from storage.log.log_environment import LogEnvironment
from storage.log.log_reader import LogReader
from storage.log.producer_state import NO_PRODUCERS, ProducerStates
from storage.log.transaction_verifications import TransactionVerifications
from storage.log.validation import PlainBatchRules, ValidationLevel
from storage.log.writing.log_writer import LogWriter
from storage.segments.segment import OpenedSegment, Segment, random_roll_jitter_ms
from storage.segments.segment_list import Segments

logger = logging.getLogger(__name__)


class StartListener(Protocol):
    """The partition of a log."""

    def on_start_raised(self) -> None:
        """Called when the log start offset has risen, for example by retention."""


class _NoListener:
    """The listener of a log without a partition."""

    def on_start_raised(self) -> None: ...


_NO_LISTENER = _NoListener()


@lru_cache(maxsize=4096)
def _shared(topic_id: bytes) -> bytes:
    """Return one bytes object for all partitions of a topic."""
    return topic_id


class LogState:
    """The state of a log, without what changes its ends, appends or reads."""

    __slots__ = (
        "_created_ms",
        "_directory",
        "_environment",
        "_epoch_file",
        "_has_checked_end",
        "_high_watermark",
        "_is_blank",
        "_is_closed",
        "_is_closing",
        "_is_idle",
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

    # Created at first use, see `__getattr__`.
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
        """Create a loaded log; use `PartitionLog.open`."""
        # (topic, partition): one object, shared by all dictionaries with this key.
        self.key = key
        self.topic, self.partition = key
        self.topic_id = _shared(loaded.topic_id)
        # None when the folder has the default name of the partition.
        self._directory = directory if directory != f"{environment.path}/{partition_folder(*key)}" else None
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        # Below it the log was compacted; None when it never was, and has no gap between segments. The cleaner advances it and
        # stores it in a checkpoint.
        self.first_dirty_offset: int | None = None
        self._high_watermark = loaded.log_start_offset
        self.next_offset = loaded.log_end_offset
        self._environment = environment
        self._producers = self._limited(loaded.producers)
        self._verifications: TransactionVerifications | None = None
        self._lacks_snapshot = loaded.lacks_snapshot
        # False from a truncation until the producers are rebuilt from the files.
        self._knows_producers = True
        self._epoch_file = LeaderEpochFile(
            loaded.epochs,
            self,
            # The recovery point is at the end, so the folder's name is durable.
            is_durable=loaded.recovery_point == loaded.log_end_offset,
        )
        # False until the end was read from the file of the last segment: after a clean stop it comes from a checkpoint.
        self._has_checked_end = False
        self._is_closed = self._is_closing = False
        # Done when the truncation in progress has ended (`LogEnds.truncate_to`, `LogEnds.resume`); None without one.
        self._truncation: asyncio.Future[None] | None = None
        self.start_listener: StartListener = _NO_LISTENER
        self._created_ms = loaded.segments[-1].created_ms
        # The log has one segment without bytes, which was not used yet.
        self._is_blank = loaded.is_blank
        if not self._is_blank:
            self._segments = Segments(loaded.segments)
            self._segments.active.roll_jitter_ms = random_roll_jitter_ms(config, environment.randomness)
        self._is_idle = loaded.recovery_point == loaded.log_end_offset and not loaded.lacks_snapshot
        if not self._is_idle:
            self._make_writer(loaded.recovery_point, has_written=loaded.lacks_snapshot)

    # --- parts ---

    if not TYPE_CHECKING:  # to a type checker every attribute would be one of these

        def __getattr__(self, name: str) -> Any:
            """Create a part at its first use: Python calls this for a slot that is not set."""
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
        self._is_idle = False
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
        """Derive the rules from the topic's changed settings."""
        rules = self._rules = PlainBatchRules(self.config, ValidationLevel(self._environment.validation))
        return rules

    @property
    def directory(self) -> str:
        """The path of the log's folder."""
        return self._directory or f"{self._environment.path}/{partition_folder(*self.key)}"

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        return f"<PartitionLog {self._name} [{self.log_start_offset}, {self.log_end_offset})>"

    # --- state ---

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last written record."""
        return self.next_offset if self._is_idle else self._writer.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Records below it are committed. Replication advances it; the log manager checkpoints it."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self.commit(offset)

    def commit(self, high_watermark: int) -> int:
        """Set the high watermark. Returns the last stable offset, where read_committed ends."""
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
        return self.next_offset if self._is_idle else self._writer.durability.recovery_point

    @property
    def failure(self) -> KafkaError | None:
        """The error of a failed log, which accepts no more records; else None."""
        return None if self._is_idle else self._writer.refusals.failure

    @property
    def has_room(self) -> bool:
        """Whether the disk has room for more records."""
        refusal = self._room_refusal() if self._is_idle else self._writer.refusals.current
        return not isinstance(refusal, NoRoom)

    @property
    def halted(self) -> NoRoom | None:
        """The error that halted the log, because the disk had no room for a write; None otherwise. `LogEnds.resume` is due when
        there may be room."""
        return None if self._is_idle else self._writer.refusals.halted

    @property
    def is_halted(self) -> bool:
        return self.halted is not None

    def on_room_changed(self) -> None:
        """Called when the free space of the log directory has crossed its minimum."""
        if self._is_idle:
            return  # its writer will ask
        refusals = self._writer.refusals
        if refusals.error is None:
            refusals.current = self._room_refusal()

    def _room_refusal(self) -> KafkaError | None:
        """Return the error for records of clients when the directory lacks room; else None."""
        return self._environment.space.refusal(self.topic, is_own=False)

    @property
    def size_bytes(self) -> int:
        return 0 if self._is_blank else self._segments.size_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the log has no bytes, and nothing that could be deleted."""
        return self._is_blank or (len(self._segments) == 1 and not self._segments.active.end_bytes)

    @property
    def segments(self) -> Segments:
        """The segments. They are a part that is created at first use: periodic tasks over all logs use one of the three
        properties below."""
        return self._segments

    @property
    def segments_count(self) -> int:
        return 1 if self._is_blank else len(self._segments)

    @property
    def base_offset(self) -> int:
        """The base offset of the first segment, at or before `log_start_offset`."""
        return self.next_offset if self._is_blank else self._segments.first.base_offset

    @property
    def has_open_file(self) -> bool:
        """Whether the file of the active segment is open."""
        return not self._is_blank and self._segments.active.file is not None

    @property
    def producers(self) -> ProducerStates:
        """The producers, read-only: all logs without producers share one object."""
        return self._producers

    def recall_producers(self, before: ProducerStates) -> bool:
        """Take over producers of another log, see `ProducerStates.recall`."""
        return len(before) > 0 and self._own_producers().recall(before, self.log_end_offset)

    def _limited(self, producers: ProducerStates) -> ProducerStates:
        """Return the producers that were read from files, from now on with the limit of the broker."""
        if not len(producers):
            return NO_PRODUCERS
        producers.keep_at_most = self._environment.producers_max
        return producers

    def _own_producers(self) -> ProducerStates:
        """Return producers that this log may change."""
        if self._producers is NO_PRODUCERS:
            self._producers = ProducerStates(self._environment.producers_max)
        return self._producers

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the earliest open transaction, None without one."""
        return self._producers.first_unstable_offset

    # --- leader epochs ---

    def assign_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` on belong to `epoch`. No effect when this or a later epoch is known."""
        self._epoch_file.assign(epoch, start_offset)

    def forget_unused_epochs(self) -> None:
        """Drop epochs in which nothing was appended, when this log begins to follow another: the leader may not know them, and
        would have this log truncated at its end."""
        self._epoch_file.truncate_from_end(self.next_offset)

    @property
    def has_unsaved_epochs(self) -> bool:
        """Whether the epoch of the last record is missing in the epochs' file."""
        return not self._is_idle and self._epoch_file.lacks_epoch_of(self.log_end_offset - 1)

    async def save_epochs(self) -> None:
        """Write the epochs' file if it is outdated."""
        self._epoch_file.save()
        await self._catch_up()

    def keep_epochs(self) -> None:
        """Flush the epochs, see `WriterContext`."""
        self._epoch_file.keep()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (largest known epoch at or below `epoch`, its end offset); (-1, -1) when none is known. KIP-101, KIP-279."""
        return self._epoch_file.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log, -1 without any."""
        return self._epoch_file.epochs.latest_epoch

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 when it is not known."""
        return self._epoch_file.epochs.epoch_for(offset)

    async def adopt_topic_id(self, topic_id: bytes) -> None:
        """Set the topic id of a log from before KIP-516."""
        self.topic_id = _shared(topic_id)
        self.write_file(PARTITION_METADATA_FILE, format_partition_metadata(topic_id))
        await self._catch_up()

    def write_file(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file of the log's folder, see `LogFiles.write_file`."""
        self._writer.files.write_file(f"{self.directory}/{name}", content, durable=durable)

    # --- durability ---

    def producer_snapshot(self, offset: int) -> bytes | None:
        """Return the content of a snapshot, see `WriterContext`."""
        return self._producers.to_snapshot() if self._knows_producers and self.next_offset <= offset else None

    def check_end(self, opened: OpenedSegment) -> None:
        """Compare the end of the opened last segment with the expected log end, see `WriterContext`."""
        if not self._has_checked_end:
            self._has_checked_end = True
            if opened.problem is None and opened.next_offset < self.log_end_offset:
                log_lost_end(self.directory, opened.next_offset, self.recovery_point)

    async def await_appends(self) -> None:
        """Return when every append made so far is written, or has failed."""
        if not self._is_idle:
            await self._writer.pending.await_idle()

    async def _catch_up(self) -> None:
        """Return when the file writes that are queued now are done. A log under load is never without pending appends."""
        if not self._is_idle:
            await self._writer.jobs.await_queued()

    async def flush(self) -> None:
        """Flush everything appended before this call. Raises KAFKA_STORAGE_ERROR."""
        if self._is_idle:
            return
        writer = self._writer
        writer.durability.flushed_ms = self._environment.clock.monotonic_ms()
        await writer.flush(self.next_offset)
        if writer.refusals.failure is not None:
            raise writer.refusals.failure.again()

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether there is something to flush, and `flush.ms` has passed since the last flush. `now_ms` is monotonic."""
        if self._is_idle:
            return False
        durability = self._writer.durability
        has_unflushed = self._writer.log_end_offset > durability.recovery_point
        return has_unflushed and now_ms - durability.flushed_ms >= self.config.flush_ms

    async def finish(self) -> None:
        """Write what a clean start needs, and stay open. Raises KAFKA_STORAGE_ERROR."""
        if self._is_idle:
            return
        await self._writer.pending.await_idle()
        await self._writer.finish(self.producer_snapshot(self.log_end_offset))
        error = self._writer.refusals.error
        if error is not None:
            raise error.again()

    async def wait_for_truncation(self) -> None:
        """Return when no truncation is in progress."""
        while self._truncation is not None:
            await asyncio.shield(self._truncation)

    async def close(self, *, flush: bool = True) -> None:
        """Wait for pending work and close the files. `flush`: write what a clean start needs first."""
        if self._is_closed:
            return
        self._is_closing = True
        await self.wait_for_truncation()
        await self.await_appends()
        if self._is_idle:
            self._leave_segments()
            return
        writer = self._writer
        if flush:
            await writer.finish(self.producer_snapshot(self.log_end_offset))
        if writer.refusals.error is not None:
            await self._environment.queue.drain()  # its thread may be performing a write that was dropped here
        self._leave_segments()
        error = writer.refusals.error
        if error is not None and flush:
            raise error.again()

    def _leave_segments(self) -> None:
        self._is_closed = True
        if not self._is_blank:
            for segment in self._segments:
                self._environment.open_segments.remove(segment)

    def fail(self, cause: OSError) -> None:
        """Accept no more records, and have the log directory taken offline."""
        self._writer.refusals.fail(cause)

    def take_offline(self, cause: OSError) -> None:
        """Accept no more records and open no more files, because the log directory is offline and the folder may be renamed
        soon."""
        self.detach_folder()
        self._writer.refusals.fail(cause, is_known=True)

    def on_taken_offline(self) -> None:
        """See `WriterContext`."""
        self.next_offset = self.log_end_offset

    def detach_folder(self) -> None:
        """Prepare a buffering or failed log for the renaming of its folder. Open files stay readable; opening a file raises
        KAFKA_STORAGE_ERROR, and the caller retries."""
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
        """Turn an IO error in the block into a failure of the log, or halt it when there was no room. Raises
        KAFKA_STORAGE_ERROR."""
        try:
            yield
        except OSError as error:
            self._writer.refusals.on_refused(error)
            refusal = self._writer.refusals.error
            assert refusal is not None
            raise refusal.again() from error
