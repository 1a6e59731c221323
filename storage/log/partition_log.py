"""One partition's log on this broker: its appends and life cycle, over parts with a duty each.

| part | duty |
|---|---|
| `offsets` | where the log starts and ends, what is committed and on the disk; the other parts share it |
| `epochs` | leader epochs and their file |
| `producers` | producers' states, transactions that are about to begin |
| `segments` | the segments, in order |
| `writer` | placing, rolling, writing; its parts: pending writes, refusals of the disk, jobs, files, durability |
| `reading` | byte ranges, aborted transactions, timestamps |
| `truncation` | whether records are being removed at the end |

A part knows nothing of the log. What is done to a whole log stands above it, as functions: `removal/log_truncation.py` (for a
follower, and after the disk was full), `removal/segment_retention.py` (the start of the log), `log_replacement.py` (another log
takes this one's place), `segment_replacement.py` (cleaned segments).

A log is at rest until it is used: of ten thousand partitions few are written to or read. A log at rest is wholly on the disk,
has no pending writes, and has no writer; its other parts are made at the first use, too, by the property that returns them.
Periodic tasks over all logs use only properties that make no part.

`append` is synchronous: it validates, checks producers, assigns offsets in the caller's buffer and passes it to the writer;
`done` is called when the bytes are in the log.

Rules: methods run on the event loop and never wait for a disk; methods that need the disk are async and use the directory's
`DiskQueue` (in order) or reader threads. Errors are raised as `KafkaError`; an IO error fails the log for good
(KAFKA_STORAGE_ERROR) and is reported to the owner, which takes the log directory offline.
Invariants: those of `LogOffsets`; after a failure the log ends at its written prefix and has to be opened again before it takes
more.
Source: Kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import patch
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import Buffer
from storage.folder_files import PARTITION_METADATA_FILE, format_partition_metadata, partition_folder, shared_topic_id
from storage.free_space import NoRoom
from storage.log.append_result import AppendResult
from storage.log.leader_epoch_file import LeaderEpochFile
from storage.log.loading import LoadedLog
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.producers.log_producers import LogProducers
from storage.log.producers.producer_state import Duplicate
from storage.log.producers.transaction_verifications import VerificationGuard
from storage.log.reading.cold_reading import ColdReading
from storage.log.reading.log_reader import LogReader
from storage.log.reading.log_reading import LogReading
from storage.log.reading.timestamp_search import TimestampOffset
from storage.log.removal.start_listener import NO_LISTENER, StartListener
from storage.log.removal.truncation_state import TruncationState
from storage.log.validation import (
    AppendOrigin,
    PlainBatchRules,
    ValidatedRecords,
    ValidationLevel,
    plain_batch,
    validate,
)
from storage.log.writing.copied_batches import append_copied
from storage.log.writing.log_writer import LogWriter
from storage.log.writing.pending_writes import Done
from storage.segments.segment import NO_TIMESTAMP, Segment, random_roll_jitter_ms
from storage.segments.segment_list import Segments

__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "TimestampOffset"]


class PartitionLog:
    """The log of one partition."""

    __slots__ = (
        "_created_ms",
        "_directory",
        "_reading",
        "_rules",
        "_segments",
        "_truncation",
        "_writer",
        "config",
        "environment",
        "epochs",
        "is_closed",
        "is_closing",
        "key",
        "offsets",
        "partition",
        "producers",
        "start_listener",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        key: TopicPartition,
        directory: str,
        config: LogConfig,
        environment: LogEnvironment,
        loaded: LoadedLog,
    ) -> None:
        """Create a loaded log; use `open`."""
        # (topic, partition): one object, shared by all dictionaries with this key.
        self.key = key
        self.topic, self.partition = key
        self.topic_id = shared_topic_id(loaded.topic_id)
        # None when the folder has the default name of the partition.
        self._directory = directory if directory != f"{environment.path}/{partition_folder(*key)}" else None
        self.config = config
        """The topic's settings; changed by `configure`."""
        self.environment = environment
        self.offsets = LogOffsets(loaded.log_start_offset, loaded.log_end_offset, loaded.recovery_point)
        is_durable = loaded.recovery_point == loaded.log_end_offset  # then so is the folder's name
        self.epochs = LeaderEpochFile(loaded.epochs, self.offsets, self.write_file, is_durable=is_durable)
        self.producers = LogProducers(environment, loaded.producers, lacks_snapshot=loaded.lacks_snapshot)
        self.is_closed = self.is_closing = False
        self.start_listener: StartListener = NO_LISTENER
        self._created_ms = loaded.segments[-1].created_ms
        self._reading: LogReading | None = None
        self._rules: PlainBatchRules | None = None
        self._truncation: TruncationState | None = None
        # None while the log has one segment without bytes, which was not used yet.
        self._segments: Segments | None = None
        if not loaded.is_blank:
            self._segments = Segments(loaded.segments)
            self._segments.active.roll_jitter_ms = random_roll_jitter_ms(config, environment.randomness)
        self._writer: LogWriter | None = None
        if not is_durable or loaded.lacks_snapshot:
            self.writer.has_written = loaded.lacks_snapshot

    @property
    def directory(self) -> str:
        """The path of the log's folder."""
        return self._directory or f"{self.environment.path}/{partition_folder(*self.key)}"

    @property
    def name(self) -> str:
        """The partition, as errors and task names show it."""
        return f"{self.topic}-{self.partition}"

    def configure(self, config: LogConfig) -> None:
        """Apply the topic's changed settings."""
        self.config = config
        if self._writer is not None:
            self._writer.config = config

    def __repr__(self) -> str:
        return f"<PartitionLog {self.name} [{self.log_start_offset}, {self.log_end_offset})>"

    # --- parts that are made at the first use ---

    @property
    def segments(self) -> Segments:
        """The segments. Periodic tasks over all logs use the properties of the next section."""
        segments = self._segments
        if segments is None:
            only = Segment(
                self.directory,
                self.offsets.next_offset,
                size_bytes=0,
                created_ms=self._created_ms,
                roll_jitter_ms=random_roll_jitter_ms(self.config, self.environment.randomness),
            )
            segments = self._segments = Segments([only])
        return segments

    @property
    def writer(self) -> LogWriter:
        writer = self._writer
        if writer is None:
            writer = self._writer = LogWriter(
                self.key,
                self.directory,
                self.config,
                self.environment,
                self.offsets,
                self.segments,
                self.epochs,
                self.producers,
            )
            writer.refusals.note_room()
        return writer

    @property
    def reading(self) -> LogReading:
        reading = self._reading
        if reading is None:
            reading = self._reading = LogReading(
                self.key, self.directory, self.environment, self.offsets, self.readable_end, self._make_reader
            )
        return reading

    def _make_reader(self) -> LogReader:
        cold = ColdReading(self.segments, self.environment, self.config.index_interval_bytes, self.offsets)
        return LogReader(self.segments, self.offsets, self.environment, cold)

    @property
    def truncation(self) -> TruncationState:
        truncation = self._truncation
        if truncation is None:
            truncation = self._truncation = TruncationState()
        return truncation

    # --- what periodic tasks look at: no part is made ---

    @property
    def is_at_rest(self) -> bool:
        """Whether the log has no writer: it is completely on the disk."""
        return self._writer is None

    @property
    def is_blank(self) -> bool:
        """Whether the log has one segment without bytes, which was not used yet."""
        return self._segments is None

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last written record."""
        return self.offsets.log_end_offset

    @property
    def failure(self) -> KafkaError | None:
        """The error of a failed log, which accepts no more records; else None."""
        return None if self._writer is None else self._writer.refusals.failure

    @property
    def halted(self) -> NoRoom | None:
        """The error that halted the log, because the disk had no room for a write; None otherwise.
        `log_truncation.resume` is due when there may be room."""
        return None if self._writer is None else self._writer.refusals.halted

    @property
    def is_halted(self) -> bool:
        return self.halted is not None

    @property
    def has_room(self) -> bool:
        """Whether the disk has room for more records."""
        space, writer = self.environment.space, self._writer
        refusal = space.refusal(self.topic, is_own=False) if writer is None else writer.refusals.current
        return not isinstance(refusal, NoRoom)

    @property
    def is_truncating(self) -> bool:
        return self._truncation is not None and self._truncation.is_in_progress

    @property
    def may_lose_segments(self) -> bool:
        """Whether segments may be removed, replaced or closed now."""
        if self.is_truncating or self.is_closed:
            return False
        writer = self._writer
        return writer is None or not (writer.refusals.failure is not None or writer.pending.is_buffering)

    @property
    def size_bytes(self) -> int:
        return 0 if self._segments is None else self._segments.size_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the log has no bytes, and nothing that could be deleted."""
        segments = self._segments
        return segments is None or (len(segments) == 1 and not segments.active.end_bytes)

    @property
    def segments_count(self) -> int:
        return 1 if self._segments is None else len(self._segments)

    @property
    def base_offset(self) -> int:
        """The base offset of the first segment, at or before `log_start_offset`."""
        return self.offsets.next_offset if self._segments is None else self._segments.first.base_offset

    @property
    def has_open_file(self) -> bool:
        """Whether the file of the active segment is open."""
        return self._segments is not None and self._segments.active.file is not None

    def on_room_changed(self) -> None:
        """Called when the free space of the log directory has crossed its minimum."""
        if self._writer is not None:  # one that is made later asks
            self._writer.refusals.note_room()

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether there is something to flush, and `flush.ms` has passed since the last flush. `now_ms` is monotonic."""
        writer = self._writer
        if writer is None:
            return False
        has_unflushed = self.offsets.log_end_offset > self.offsets.recovery_point
        return has_unflushed and now_ms - writer.durability.flushed_ms >= self.config.flush_ms

    # --- offsets ---

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record that readers get."""
        return self.offsets.log_start_offset

    @property
    def high_watermark(self) -> int:
        """Records below it are committed. Replication advances it; the log manager checkpoints it."""
        return self.offsets.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self.commit(offset)

    def commit(self, high_watermark: int) -> int:
        """Set the high watermark. Returns the last stable offset, where read_committed ends."""
        self.offsets.high_watermark = high_watermark
        producers = self.producers.states
        if not producers.has_transactions:
            return high_watermark
        producers.on_high_watermark(high_watermark)
        unstable_offset = producers.first_unstable_offset
        if unstable_offset is None:
            return high_watermark
        return min(max(unstable_offset, self.offsets.log_start_offset), high_watermark)

    def readable_end(self) -> int:
        """Return the log end offset. Raises KAFKA_STORAGE_ERROR for a failed or closed log."""
        writer = self._writer
        if writer is not None and writer.refusals.failure is not None:
            raise writer.refusals.failure.again()
        if self.is_closed:
            raise self.closed_error()
        return self.offsets.log_end_offset

    # --- appending ---

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
        done: Done,
        produce_version: int | None = None,
        checked: ValidatedRecords | None = None,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append batches; `records` is patched in place and belongs to the log until `done`. `checked` is the result of
        `validate_in_thread`. With a `guard`, a transactional batch is refused unless its transaction has begun here, or the
        guard, which `begin_verification` returned, is still the producer's.

        Raises KafkaError or LongValidation, and then nothing has changed. `done` may be called before this returns.
        """
        writer = self._writer
        if writer is None:
            writer = self.writer
        refusal = writer.refusals.current
        if refusal is not None:
            writer.refusals.check(is_own=origin is AppendOrigin.COORDINATOR)
        assert self._truncation is None or not self._truncation.is_in_progress, f"{self} is being truncated"
        if self.is_closed:
            raise self.closed_error()
        is_client = origin is AppendOrigin.CLIENT
        rules = self._rules
        if rules is None or rules.config is not self.config:
            rules = self._renew_rules()
        header = plain_batch(records, rules) if is_client and checked is None else None
        if header is not None:
            whole, log_append_time_ms = records, NO_TIMESTAMP
        else:
            if checked is not None:
                checked.stamp_again(now_ms)
            else:
                checked = validate(
                    records,
                    config=self.config,
                    origin=origin,
                    now_ms=now_ms,
                    produce_version=produce_version,
                    level=rules.level,
                    partition=self.name,
                    is_inline=is_client,
                )
            if not checked.headers:
                done(None)
                return AppendResult(-1, -1, checked.log_append_time_ms, self.offsets.log_start_offset, 0)
            if origin is AppendOrigin.REPLICA:
                return append_copied(writer, checked, now_ms, done)
            header, whole, log_append_time_ms = checked.headers[0], checked.records, checked.log_append_time_ms
        if header.producer_id >= 0:
            if is_client and guard is None:
                earlier = self.producers.states.check(header)
            else:
                earlier = self.producers.check(whole, header, guard, is_client=is_client)
            if earlier is not None:
                return self._complete_duplicate(earlier, done)
        offsets = self.offsets
        base_offset = offsets.next_offset
        last_offset = base_offset + header.last_offset_delta
        patch(whole, 0, base_offset, leader_epoch)  # type: ignore[arg-type]  # writable, says validation
        header.base_offset, header.partition_leader_epoch = base_offset, leader_epoch
        max_timestamp = header.max_timestamp if header.max_timestamp > NO_TIMESTAMP else NO_TIMESTAMP
        writer.make_room(base_offset, last_offset, header.size_bytes, max_timestamp, now_ms)
        ended = self.producers.replay(whole, 0, header) if header.producer_id >= 0 else None
        if leader_epoch > self.epochs.known.latest_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        offsets.next_offset = last_offset + 1
        aborted = () if ended is None or not ended.is_aborted else (self.producers.states.aborted(ended),)
        writer.enqueue_write(whole, last_offset + 1, max_timestamp, last_offset, now_ms, done, aborted)
        return AppendResult(
            base_offset, last_offset, log_append_time_ms, offsets.log_start_offset, header.last_offset_delta + 1
        )

    def _renew_rules(self) -> PlainBatchRules:
        """Derive the rules from the topic's changed settings."""
        rules = self._rules = PlainBatchRules(self.config, ValidationLevel(self.environment.validation))
        return rules

    def _complete_duplicate(self, earlier: Duplicate, done: Done) -> AppendResult:
        """Return the result of the first append for a retry, and call `done` once that is written."""
        result = AppendResult(
            earlier.base_offset,
            earlier.last_offset,
            earlier.timestamp,
            self.offsets.log_start_offset,
            0,
            duplicate=True,
        )
        self.writer.when_written(earlier.last_offset + 1, done)
        return result

    # --- files ---

    async def adopt_topic_id(self, topic_id: bytes) -> None:
        """Set the topic id of a log from before KIP-516."""
        self.topic_id = shared_topic_id(topic_id)
        self.write_file(PARTITION_METADATA_FILE, format_partition_metadata(topic_id))
        await self.await_queued_files()

    def write_file(self, name: str, content: bytes, durable: bool = True) -> None:
        """Replace a small file of the log's folder, see `LogFiles.write_file`."""
        self.writer.files.write_file(f"{self.directory}/{name}", content, durable=durable)

    async def await_queued_files(self) -> None:
        """Return when the file writes that are queued now are done. A log under load is never without pending appends."""
        if self._writer is not None:
            await self._writer.jobs.await_queued()

    # --- flushing and closing ---

    async def await_appends(self) -> None:
        """Return when every append made so far is written, or has failed."""
        if self._writer is not None:
            await self._writer.pending.await_idle()

    async def flush(self) -> None:
        """Flush everything appended before this call. Raises KAFKA_STORAGE_ERROR."""
        writer = self._writer
        if writer is None:
            return
        writer.durability.flushed_ms = self.environment.clock.monotonic_ms()
        await writer.flush(self.offsets.next_offset)
        if writer.refusals.failure is not None:
            raise writer.refusals.failure.again()

    async def finish(self) -> None:
        """Write what a clean start needs, and stay open. Raises KAFKA_STORAGE_ERROR."""
        writer = self._writer
        if writer is None:
            return
        await writer.pending.await_idle()
        await writer.finish()
        error = writer.refusals.error
        if error is not None:
            raise error.again()

    async def close(self, *, flush: bool = True) -> None:
        """Wait for pending work and close the files. `flush`: write what a clean start needs first."""
        if self.is_closed:
            return
        self.is_closing = True
        if self._truncation is not None:
            await self._truncation.wait()
        await self.await_appends()
        writer = self._writer
        if writer is None:
            self._leave_segments()
            return
        if flush:
            await writer.finish()
        if writer.refusals.error is not None:
            await self.environment.queue.drain()  # its thread may be performing a write that was dropped here
        self._leave_segments()
        error = writer.refusals.error
        if error is not None and flush:
            raise error.again()

    def _leave_segments(self) -> None:
        self.is_closed = True
        if self._segments is not None:
            for segment in self._segments:
                self.environment.open_segments.remove(segment)

    def closed_error(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} is closed.")

    def take_offline(self, cause: OSError) -> None:
        """Accept no more records and open no more files, because the log directory is offline and the folder may be renamed
        soon."""
        self.detach_folder()
        self.writer.refusals.fail(cause, is_known=True)

    def detach_folder(self) -> None:
        """Prepare a buffering or failed log for the renaming of its folder. Open files stay readable; opening a file raises
        KAFKA_STORAGE_ERROR, and the caller retries."""
        for segment in self.segments:
            segment.is_removed = True
