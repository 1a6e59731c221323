"""One partition's log on this broker: Kafka's UnifiedLog without what stands in modules of its own.

`append` is synchronous: it validates, checks producers, assigns offsets in the caller's buffer and hands it to the
writer; `done` tells when the bytes are in the log. `read` is synchronous over what is in memory; `read_cold` waits.

Rules: methods run on the event loop and never wait for a disk; what has to is async and runs in the directory's
`DiskQueue` (in order) or in reader threads. Errors leave as `KafkaError`; an IO error fails the log for good
(KAFKA_STORAGE_ERROR) and is told to the owner, who takes the log directory offline.
Invariants: log_start_offset <= high_watermark <= log_end_offset <= next_offset; everything below `recovery_point` is on
the disk; after a failure the log ends at its written prefix and has to be opened again before it takes more.
Source: Kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from protocol.records.batch import BatchHeader, patch
from runtime.filesystem import Buffer
from storage.loading import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    LoadedLog,
    LoadRequest,
    format_partition_metadata,
    make_and_load_log,
    set_segments_aside,
)
from storage.log_environment import LogEnvironment
from storage.log_reader import EMPTY, LogReader, Segments, TimestampOffset
from storage.log_writer import Done, LogWriter
from storage.producer_state import Duplicate, ProducerStates
from storage.segment import LOG_SUFFIX, NO_TIMESTAMP, random_roll_jitter_ms
from storage.truncation import cut_segments, restart_segments
from storage.validation import (
    AppendOrigin,
    PlainBatchRules,
    ValidatedRecords,
    ValidationLevel,
    plain_batch,
    validate,
)

__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "TimestampOffset"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)  # not frozen, which takes twice as long to make
class AppendResult:
    """What an append assigned; of a duplicate, what the first append of these records was assigned.

    `log_append_time_ms` is -1 unless the topic stamps records itself.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    records_count: int
    duplicate: bool = False


class PartitionLog:
    """See the module."""

    __slots__ = (
        "_environment",
        "_epochs",
        "_has_epoch_file",
        "_high_watermark",
        "_is_closed",
        "_is_truncating",
        "_lacks_snapshot",
        "_name",
        "_producers",
        "_reader",
        "_rules",
        "_segments",
        "_validation",
        "_writer",
        "config",
        "directory",
        "flushed_ms",
        "log_start_offset",
        "next_offset",
        "partition",
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
        """Use `open`."""
        self.topic = topic
        self.partition = partition
        self.topic_id = loaded.topic_id
        self.directory = directory
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self._high_watermark = loaded.log_start_offset
        self.next_offset = loaded.log_end_offset
        self._environment = environment
        self._validation = ValidationLevel(environment.validation)
        self._rules = PlainBatchRules(config, self._validation)
        self._name = f"{topic}-{partition}"
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._segments = Segments(loaded.segments)
        self._writer = LogWriter(self, self._segments, environment, loaded.log_end_offset, loaded.recovery_point)
        self._writer.has_written = self._lacks_snapshot = loaded.lacks_snapshot
        self._has_epoch_file = loaded.has_epoch_file
        self._reader = LogReader(self._segments, environment, config.index_interval_bytes)
        self._is_closed = False
        self._is_truncating = False
        self.flushed_ms = environment.clock.monotonic_ms()
        self._segments.active.roll_jitter_ms = random_roll_jitter_ms(config, environment.randomness)

    @classmethod
    async def open(
        cls,
        topic: str,
        partition: int,
        directory: str,
        config: LogConfig,
        environment: LogEnvironment,
        *,
        topic_id: bytes = ZERO_UUID,
        is_clean: bool = False,
        recovery_point: int | None = None,
        log_start_offset: int | None = None,
    ) -> PartitionLog:
        """Open one log, made when its folder is not there. Raises OSError, LegacyFormat."""
        request = LoadRequest(
            directory,
            is_clean=is_clean,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=environment.clock.wall_ms(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            is_compacted=config.is_compacted,
        )
        loaded = await environment.queue.run(partial(make_and_load_log, environment.filesystem, request))
        return cls(topic, partition, directory, config, environment, loaded)

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
        return high_watermark if unstable_offset is None else min(unstable_offset, high_watermark)

    @property
    def recovery_point(self) -> int:
        return self._writer.recovery_point

    @property
    def failure(self) -> KafkaError | None:
        """Why the log takes no more, if it does not."""
        return self._writer.failure

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

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
    ) -> AppendResult:
        """Append batches; `records` is patched in place and belongs to the log until `done`.

        Raises KafkaError, and then nothing has changed. `done` may be called before this returns.
        """
        writer = self._writer
        if writer.failure is not None:
            raise writer.failure
        assert not self._is_truncating, f"append to {self}, which is being cut"
        if self._is_closed:
            raise self._closed()
        is_client = origin is AppendOrigin.CLIENT
        header = plain_batch(records, self._plain_rules()) if is_client else None
        if header is not None:
            whole, log_append_time_ms = records, NO_TIMESTAMP
        else:
            checked = validate(
                records,
                config=self.config,
                origin=origin,
                now_ms=now_ms,
                produce_version=produce_version,
                level=self._validation,
                partition=self._name,
            )
            if not checked.headers:
                done(None)
                return AppendResult(-1, -1, checked.log_append_time_ms, self.log_start_offset, 0)
            if origin is AppendOrigin.REPLICA:
                return self._append_copied(checked, now_ms, done)
            header, whole, log_append_time_ms = checked.headers[0], checked.records, checked.log_append_time_ms
        if is_client and header.producer_id >= 0:
            earlier = self._producers.check(header)
            if earlier is not None:
                return self._answer_duplicate(earlier, done)
        base_offset = self.next_offset
        last_offset = base_offset + header.last_offset_delta
        patch(whole, 0, base_offset, leader_epoch)  # type: ignore[arg-type]  # writable, says validation
        header.base_offset, header.partition_leader_epoch = base_offset, leader_epoch
        max_timestamp = header.max_timestamp if header.max_timestamp > NO_TIMESTAMP else NO_TIMESTAMP
        writer.make_room(base_offset, last_offset, header.size_bytes, max_timestamp, now_ms)
        if header.producer_id >= 0:
            self._producers.replay(whole, 0, header)
        if leader_epoch > self._epochs.latest_epoch:
            self.assign_leader_epoch(leader_epoch, base_offset)
        self.next_offset = last_offset + 1
        writer.place(whole, last_offset + 1, max_timestamp, last_offset, now_ms, done)
        return AppendResult(
            base_offset, last_offset, log_append_time_ms, self.log_start_offset, header.last_offset_delta + 1
        )

    def _plain_rules(self) -> PlainBatchRules:
        rules = self._rules
        if rules.config is not self.config:
            rules = self._rules = PlainBatchRules(self.config, self._validation)
        return rules

    def _append_copied(self, checked: ValidatedRecords, now_ms: int, done: Done) -> AppendResult:
        """Any number of batches as the leader has them: they bring offsets and epochs with them."""
        whole, headers = checked.records, checked.headers
        next_offset = self._check_copied(headers)
        max_timestamp, offset_of_max_timestamp, count = NO_TIMESTAMP, next_offset - 1, 0
        for header in headers:
            count += header.last_offset_delta + 1
            if header.max_timestamp > max_timestamp:
                max_timestamp, offset_of_max_timestamp = header.max_timestamp, header.last_offset
        base_offset = headers[0].base_offset
        self._writer.make_room(base_offset, next_offset - 1, len(whole), max_timestamp, now_ms)
        self._note_batches(whole, headers)
        self.next_offset = next_offset
        self._writer.place(whole, next_offset, max_timestamp, offset_of_max_timestamp, now_ms, done)
        return AppendResult(base_offset, next_offset - 1, checked.log_append_time_ms, self.log_start_offset, count)

    def _answer_duplicate(self, earlier: Duplicate, done: Done) -> AppendResult:
        """A retry of what is here: `done` once that is written."""
        result = AppendResult(
            earlier.base_offset, earlier.last_offset, earlier.timestamp, self.log_start_offset, 0, duplicate=True
        )
        self._writer.when_written(earlier.last_offset + 1, done)
        return result

    def _check_copied(self, headers: list[BatchHeader]) -> int:
        """The end of batches copied from a leader. Raises CORRUPT_MESSAGE when they do not go on where the log ends."""
        if headers[0].base_offset < self.next_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{self._name} ends at {self.next_offset}; the copied batch is {headers[0]}."
            )
        return headers[-1].next_offset

    def _note_batches(self, records: Buffer, headers: list[BatchHeader]) -> None:
        """Producers and epochs of batches that are about to be placed."""
        position = 0
        for header in headers:
            if header.producer_id >= 0:
                self._producers.replay(records, position, header)
            if header.partition_leader_epoch > self._epochs.latest_epoch:
                self.assign_leader_epoch(header.partition_leader_epoch, header.base_offset)
            position += header.size_bytes

    # --- reading ---

    def read(self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool) -> Buffer | None:
        """Whole bytes of the log from the batch that holds `fetch_offset`, at most `max_bytes`, and none of a batch that
        ends at or behind `limit_offset`; the last batch may be cut. None when they are not in memory: `read_cold`.

        `at_least_one`: the first batch is answered whole, however large it is. Raises OFFSET_OUT_OF_RANGE.
        """
        limit_offset = self._check_range(fetch_offset, limit_offset)
        if fetch_offset >= limit_offset:
            return EMPTY
        try:
            return self._reader.read(
                fetch_offset,
                limit_offset,
                max_bytes,
                at_least_one=at_least_one,
                log_end_offset=self._writer.log_end_offset,
            )
        except OSError as error:
            raise self._read_failed(error) from error

    async def read_cold(self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool) -> Buffer:
        """Like `read`, waiting for the disk in reader threads."""
        limit_offset = self._check_range(fetch_offset, limit_offset)
        if fetch_offset >= limit_offset:
            return EMPTY
        return await self._reader.read_cold(
            fetch_offset, limit_offset, max_bytes, at_least_one=at_least_one, log_end_offset=lambda: self.log_end_offset
        )

    def _check_range(self, fetch_offset: int, limit_offset: int) -> int:
        """The end of what may be read. Raises OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""
        writer = self._writer
        if writer.failure is not None:
            raise writer.failure
        if self._is_closed:
            raise self._closed()
        end_offset = writer.log_end_offset
        if not self.log_start_offset <= fetch_offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {fetch_offset} of {self._name} is not in [{self.log_start_offset}, {end_offset}].",
            )
        return min(limit_offset, end_offset)

    def _read_failed(self, error: OSError) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Reading {self.directory} failed: {error}")

    def bytes_between(self, start_offset: int, limit_offset: int) -> int:
        """Bytes that a read from `start_offset` to `limit_offset` could answer; an estimate when they are cold."""
        return self._reader.bytes_between(start_offset, min(limit_offset, self.log_end_offset), self.log_end_offset)

    async def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is at least `timestamp`."""
        return await self._reader.offset_for_timestamp(timestamp, self.log_start_offset)

    async def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of the log."""
        return await self._reader.offset_of_max_timestamp(self.log_start_offset)

    def segment_times(self) -> list[tuple[int, int]]:
        """(base offset, ms when it was last written to) of each segment: what ListOffsets v0 goes by. Asks the disk."""
        stat = self._environment.filesystem.stat
        return [(segment.base_offset, stat(segment.path(LOG_SUFFIX)).mtime_ms) for segment in self._segments]

    # --- leader epochs ---

    def assign_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on are of `epoch`. No effect when the log knows of this or a later epoch."""
        if self._epochs.assign(epoch, start_offset):
            self._write_epochs()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch at or below `epoch`, where it ends); (-1, -1) when none is known. KIP-101, KIP-279."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch with a place in the log, -1 without any."""
        return self._epochs.latest_epoch

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 when it is not known."""
        return self._epochs.epoch_for(offset)

    def _write_epochs(self) -> None:
        """Keep them in their file. A new log's first epoch need not survive a loss of power (ten thousand partitions that
        are made at once would wait long for the disk): what is left of one line "epoch 0" is never another entry, and
        without a sound file epochs are read from the log."""
        is_first, self._has_epoch_file = not self._has_epoch_file, True
        is_new_log = is_first and len(self._epochs) == 1 and self._epochs.epoch_for(0) >= 0
        path = f"{self.directory}/{LEADER_EPOCH_FILE}"
        self._writer.write_file(path, self._epochs.to_checkpoint(), durable=not is_new_log)

    async def adopt_topic_id(self, topic_id: bytes) -> None:
        """A log of before KIP-516 learns its topic's id."""
        self.topic_id = topic_id
        self._writer.write_file(f"{self.directory}/{PARTITION_METADATA_FILE}", format_partition_metadata(topic_id))
        await self._writer.settle()

    # --- both ends ---

    def delete_records(self, offset: int) -> int:
        """Records below `offset` are gone for readers; answers the new log start offset.

        Raises OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot delete {self._name} up to {offset}: its high watermark is {self.high_watermark}.",
            )
        self.raise_log_start_offset(offset)
        return self.log_start_offset

    def raise_log_start_offset(self, offset: int) -> None:
        """The log begins at `offset` now, unless it begins later already."""
        if offset <= self.log_start_offset:
            return
        assert offset <= self.log_end_offset
        self.log_start_offset = offset
        if self._epochs.truncate_from_start(offset):
            self._write_epochs()

    async def delete_segments_before(self, offset: int) -> int:
        """Set aside the segments that hold nothing at or above `offset`, never the active one; answers how many."""
        if self._lacks_snapshot and self._segments.first.base_offset < offset:
            # The records that go are the only trace of their producers.
            await self.flush()
            await self._writer.write_snapshot(self.producer_snapshot(self.log_end_offset))
            self._lacks_snapshot = False
        keep = self._segments.starting_from(offset)
        gone = self._segments.replace(keep)
        if not gone:
            return 0
        self._reader.forget_places()
        self.raise_log_start_offset(keep[0].base_offset)
        for segment in gone:
            self._environment.open_segments.leave(segment)
        job = partial(
            set_segments_aside, self._environment.filesystem, self.directory, [each.base_offset for each in gone]
        )
        try:
            self._environment.delete_later(await self._environment.queue.run(job))
        except OSError as error:
            self.fail(error)
            raise self._failed() from error
        return len(gone)

    async def truncate_to(self, offset: int) -> None:
        """Cut everything at or above `offset`, as a follower does. No appends may run meanwhile."""
        if offset < self._segments.first.base_offset:
            await self.truncate_fully_and_start_at(offset)
            return
        await self._begin_truncation()
        try:
            if offset >= self.log_end_offset:
                if self._epochs.truncate_from_end(offset):
                    self._write_epochs()
                return
            loaded = await cut_segments(
                self._segments,
                self._reader,
                self._environment,
                offset=offset,
                log_start_offset=lambda: self.log_start_offset,
                index_interval_bytes=self.config.index_interval_bytes,
                on_cut=self._end_at,
            )
            self._epochs, self._producers = loaded.epochs, loaded.producers
            self._lacks_snapshot = loaded.lacks_snapshot
            self._writer.has_written = True
        except OSError as error:
            self.fail(error)
            raise self._failed() from error
        finally:
            self._is_truncating = False

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and begin again at `offset`. No appends may run meanwhile."""
        await self._begin_truncation()
        try:
            await restart_segments(self._segments, self._environment, offset=offset, on_cut=self._begin_again_at)
            self._write_epochs()
        except OSError as error:
            self.fail(error)
            raise self._failed() from error
        finally:
            self._is_truncating = False

    async def _begin_truncation(self) -> None:
        assert not self._is_truncating
        self._is_truncating = True
        await self._writer.settle()
        if self._writer.failure is not None:
            self._is_truncating = False
            raise self._writer.failure

    def _end_at(self, offset: int) -> None:
        self._writer.end_at(offset)
        self.next_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self._reader.forget_places()

    def _begin_again_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self._end_at(offset)
        self._epochs.truncate_from_end(0)
        self._producers = ProducerStates()

    # --- durability ---

    def producer_snapshot(self, offset: int) -> bytes | None:
        """See `WriterHost`."""
        return self._producers.to_snapshot() if self.next_offset == offset else None

    async def settle(self) -> None:
        """Return when every append made so far is written, or has failed."""
        await self._writer.settle()

    async def flush(self) -> None:
        """Everything appended before this call is on the disk when it returns. Raises KAFKA_STORAGE_ERROR."""
        self.flushed_ms = self._environment.clock.monotonic_ms()
        await self._writer.flush(self.next_offset)
        if self._writer.failure is not None:
            raise self._writer.failure

    async def close(self, *, flush: bool = True) -> None:
        """Wait for what is on its way and close the files. `flush`: leave the folder as a clean start wants it."""
        if self._is_closed:
            return
        await self._writer.settle()
        if flush:
            await self._writer.finish(self.producer_snapshot(self.log_end_offset))
        self._is_closed = True
        for segment in self._segments:
            self._environment.open_segments.leave(segment)
        if self._writer.failure is not None and flush:
            raise self._writer.failure

    def fail(self, cause: OSError) -> None:
        """Take no more: the log directory is offline."""
        self._writer.fail(cause)

    def on_write_failed(self, error: KafkaError, cause: OSError) -> None:
        """See `WriterHost`."""
        self.next_offset = self.log_end_offset
        logger.error("log failed: topic=%s partition=%d error=%r", self.topic, self.partition, cause)
        self._environment.on_failed(self.directory, cause)

    def _closed(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self._name} is closed.")

    def _failed(self) -> KafkaError:
        assert self._writer.failure is not None
        return self._writer.failure
