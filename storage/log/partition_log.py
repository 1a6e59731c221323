"""One partition's log on this broker: Kafka's UnifiedLog, without the parts that have modules of their own.

`append` is synchronous: it validates, checks producers, assigns offsets in the caller's buffer and passes it to the writer;
`done` is called when the bytes are in the log. `read` is synchronous over what is in memory; `read_cold` waits.

Rules: methods run on the event loop and never wait for a disk; methods that need the disk are async and use the directory's
`DiskQueue` (in order) or reader threads. Errors are raised as `KafkaError`; an IO error fails the log for good
(KAFKA_STORAGE_ERROR) and is reported to the owner, which takes the log directory offline.
Invariants: log_start_offset <= high_watermark <= log_end_offset <= next_offset; everything below `recovery_point` is on
the disk; after a failure the log ends at its written prefix and has to be opened again before it takes more.
Source: Kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

from functools import partial

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from protocol.records.batch import BatchHeader, patch
from protocol.records.control import read_marker
from runtime.error_texts import reason_of
from runtime.file_range import FileRange
from runtime.filesystem import Buffer
from storage.log.append_result import AppendResult, extent_of
from storage.log.loading import (
    LoadRequest,
    make_and_load_log,
)
from storage.log.log_environment import LogEnvironment
from storage.log.log_reader import EMPTY
from storage.log.log_start_and_end import LogEnds
from storage.log.producer_state import NO_PRODUCERS, CompletedTransaction, Duplicate
from storage.log.timestamp_search import TimestampOffset
from storage.log.transaction_verifications import ONGOING, TransactionVerifications, VerificationGuard
from storage.log.validation import (
    AppendOrigin,
    ValidatedRecords,
    plain_batch,
    validate,
)
from storage.log.writing.pending_writes import Done, ignore_result
from storage.segments.segment import MOST_RECORDS, NO_TIMESTAMP, fit_one_segment, full_bytes, rolls_at
from storage.segments.segment_age import written_times
from storage.segments.txn_index import AbortedTxn, CorruptTxnIndex

__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "TimestampOffset"]


class PartitionLog(LogEnds):
    """The complete log of one partition: appends and reads on top of `LogEnds`."""

    __slots__ = ()

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
        """Open one log, and create its folder if it is missing. Raises OSError."""
        request = LoadRequest(
            directory,
            is_clean=is_clean,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=environment.clock.wall_ms(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            is_compacted=config.is_compacted,
            full_bytes=full_bytes(config.segment_bytes, config.max_message_bytes),
            flushes_appends=config.flushes_appends,
        )
        loaded = await environment.queue.run(partial(make_and_load_log, environment.filesystem, request))
        return cls((topic, partition), directory, config, environment, loaded)

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
        refusal = writer.refusals.current
        if refusal is not None:
            self._check_refusal(refusal, origin)
        assert self._truncation is None, f"append to {self}, which is being truncated"
        if self._is_closed:
            raise self._closed()
        is_client = origin is AppendOrigin.CLIENT
        rules = self._rules if self._rules.config is self.config else self._renew_rules()
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
                    partition=self._name,
                    is_inline=is_client,
                )
            if not checked.headers:
                done(None)
                return AppendResult(-1, -1, checked.log_append_time_ms, self.log_start_offset, 0)
            if origin is AppendOrigin.REPLICA:
                return self._append_copied(checked, now_ms, done)
            header, whole, log_append_time_ms = checked.headers[0], checked.records, checked.log_append_time_ms
        if header.producer_id >= 0:
            if is_client and guard is None:
                earlier = self._producers.check(header)
            else:
                earlier = self._check_producer(whole, header, guard, is_client=is_client)
            if earlier is not None:
                return self._complete_duplicate(earlier, done)
        base_offset = self.next_offset
        last_offset = base_offset + header.last_offset_delta
        patch(whole, 0, base_offset, leader_epoch)  # type: ignore[arg-type]  # writable, says validation
        header.base_offset, header.partition_leader_epoch = base_offset, leader_epoch
        max_timestamp = header.max_timestamp if header.max_timestamp > NO_TIMESTAMP else NO_TIMESTAMP
        writer.make_room(base_offset, last_offset, header.size_bytes, max_timestamp, now_ms)
        ended = self._replay_producer(whole, 0, header) if header.producer_id >= 0 else None
        if leader_epoch > self._epoch_file.epochs.latest_epoch:
            self.assign_leader_epoch(leader_epoch, base_offset)
        self.next_offset = last_offset + 1
        aborted = () if ended is None or not ended.is_aborted else (self._producers.aborted(ended),)
        writer.enqueue_write(whole, last_offset + 1, max_timestamp, last_offset, now_ms, done, aborted)
        return AppendResult(
            base_offset, last_offset, log_append_time_ms, self.log_start_offset, header.last_offset_delta + 1
        )

    def when_written(self, end_offset: int, done: Done) -> None:
        """Call `done` once everything appended below `end_offset` is written or has failed, and so is no longer in memory;
        immediately if that is so already."""
        self._writer.when_written(end_offset, done)

    async def validate_in_thread(
        self, records: Buffer, *, now_ms: int, produce_version: int | None
    ) -> ValidatedRecords:
        """Check a client's records for which `append` raised LongValidation, in a reader thread. Raises KafkaError."""
        job = partial(
            validate, records, config=self.config, origin=AppendOrigin.CLIENT, now_ms=now_ms,
            produce_version=produce_version, level=self._rules.level, partition=self._name,
        )  # fmt: skip
        async with self._environment.validating:
            return await self._environment.readers.run(job)

    def _check_producer(
        self, records: Buffer, header: BatchHeader, guard: VerificationGuard | None, *, is_client: bool
    ) -> Duplicate | None:
        """Whether this batch of a producer may be appended: None when it may, or how it was appended before. Raises
        INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, TRANSACTION_COORDINATOR_FENCED."""
        if guard is not None and header.is_transactional and not self._is_verified(header, guard):
            if is_client and (earlier := self._producers.find_duplicate(header)) is not None:
                return earlier
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if not is_client:
            self._check_coordinators(records, header)
            return None
        earlier = self._producers.check(header)
        if earlier is None and self._verifications is not None:
            self._verifications.check_sequence(header)
        return earlier

    def _check_coordinators(self, records: Buffer, header: BatchHeader) -> None:
        """Check whether a coordinator of this or another broker may append this batch of a producer, or the marker that ends
        its transaction. Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, INVALID_TXN_STATE."""
        marker = read_marker(records, 0, header) if header.is_control else None
        if marker is not None:
            self._producers.check_marker(header, marker)
        elif not header.is_control:
            self._producers.check(header, is_client=False)

    def _is_verified(self, header: BatchHeader, guard: VerificationGuard) -> bool:
        if self._producers.has_open_transaction(header.producer_id, header.producer_epoch):
            return True
        return self._verifications is not None and self._verifications.is_current(header.producer_id, guard)

    def _replay_producer(self, records: Buffer, position: int, header: BatchHeader) -> CompletedTransaction | None:
        """Update the producer of a batch that is about to be placed. Returns the transaction that it ends."""
        if self._verifications is not None and header.is_transactional:
            self._verifications.end(header.producer_id)
        producers = self._producers
        if producers is NO_PRODUCERS:
            producers = self._own_producers()
        return producers.replay(records, position, header)

    # --- transactions that are about to begin ---

    def begin_verification(self, producer_id: int, epoch: int, sequence: int) -> VerificationGuard:
        """Return a guard for the first batch of a transaction, whose coordinator is asked meanwhile; `ONGOING` when the
        transaction has begun here, which needs no verification."""
        if self._producers.has_open_transaction(producer_id, epoch):
            return ONGOING
        if self._verifications is None:
            self._verifications = TransactionVerifications()
        return self._verifications.begin(producer_id, epoch, sequence, self._environment.clock.wall_ms())

    def take_over_verifications(self, before: PartitionLog) -> None:
        """Take over the pending verifications of `before`, which this log replaces."""
        self._verifications = before._verifications

    def forget_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Drop the state of producers that have been silent for `expiration_ms`."""
        self._producers.remove_expired(now_ms, expiration_ms)
        if self._verifications is not None:
            self._verifications.remove_expired(now_ms, expiration_ms)

    # --- replacement by another log ---

    @property
    def can_buffer_appends(self) -> bool:
        return self._writer.can_buffer_appends and not self._is_closed and self._truncation is None

    @property
    def is_buffering(self) -> bool:
        """Whether appends are buffered because another log may replace this one; until that ends, only segments with an open
        file can be read."""
        return not self._is_idle and self._writer.pending.is_buffering

    def buffer_appends(self) -> None:
        """Accept appends and keep them in memory, until `release` or `hand_over_to`."""
        self._writer.buffer_appends()

    def release(self) -> None:
        """End the buffering and write what was buffered: this log stays the partition's."""
        for segment in self._segments:
            segment.is_gone = False
        self._writer.release()

    def hand_over_to(self, other: PartitionLog) -> None:
        """Pass the buffered appends to `other`, which contains everything that this log has written."""
        for each in self._writer.pending.take_buffered():
            try:
                other.append(
                    each.records,
                    leader_epoch=self.latest_epoch,
                    origin=AppendOrigin.REPLICA,
                    now_ms=each.now_ms,
                    done=each.done,
                )
            except KafkaError as error:
                each.done(error)

    def _check_refusal(self, refusal: KafkaError, origin: AppendOrigin) -> None:
        """Raise the reason why nothing is accepted. A directory that is almost full still accepts records of coordinators."""
        if refusal is self._writer.refusals.error:
            raise refusal.again()
        now = self._environment.space.refusal(self.topic, is_own=origin is AppendOrigin.COORDINATOR)
        if now is not None:
            raise now

    def _append_copied(self, checked: ValidatedRecords, now_ms: int, done: Done) -> AppendResult:
        """Append any number of batches of the leader, with their offsets and epochs.

        Raises CORRUPT_MESSAGE when they do not continue where the log ends.
        """
        records, headers = checked.records, checked.headers
        if headers[0].base_offset < self.next_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{self._name} ends at {self.next_offset}; the copied batch is {headers[0]}."
            )
        records_count, at = 0, 0
        parts = self._parts(headers, len(records))
        for number, part in enumerate(parts, 1):
            size_bytes = len(records) if len(parts) == 1 else sum(header.size_bytes for header in part)
            # They are written in this order, or not at all, so the outcome of the last is that of all.
            told = done if number == len(parts) else ignore_result
            records_count += self._append_part(memoryview(records)[at : at + size_bytes], part, now_ms, told)
            at += size_bytes
        return AppendResult(
            headers[0].base_offset,
            headers[-1].last_offset,
            checked.log_append_time_ms,
            self.log_start_offset,
            records_count,
        )

    def _parts(self, headers: list[BatchHeader], size_bytes: int) -> list[list[BatchHeader]]:
        """Divide the batches into pieces that fit the indexes and the offset range of one segment: nearly always one piece."""
        limits = self.config
        is_narrow = headers[-1].last_offset - headers[0].base_offset < MOST_RECORDS
        if is_narrow and fit_one_segment(len(headers), size_bytes, limits):
            return [headers]
        parts: list[list[BatchHeader]] = [[]]
        part_bytes = 0
        for header in headers:
            part = parts[-1]
            if part and not (
                header.last_offset - part[0].base_offset < MOST_RECORDS
                and fit_one_segment(len(part) + 1, part_bytes + header.size_bytes, limits)
            ):
                parts.append([])
                part_bytes = 0
            parts[-1].append(header)
            part_bytes += header.size_bytes
        return parts

    def _append_part(self, records: Buffer, headers: list[BatchHeader], now_ms: int, done: Done) -> int:
        """Append one piece; returns its number of records."""
        extent = extent_of(headers)
        next_offset, max_timestamp = extent.next_offset, extent.max_timestamp
        base_offset = rolls_at(self.next_offset, extent.base_offset, next_offset - 1)
        self._writer.make_room(base_offset, next_offset - 1, len(records), max_timestamp, now_ms, len(headers))
        aborted = self._note_batches(records, headers)
        self.next_offset = next_offset
        self._writer.enqueue_write(
            records, next_offset, max_timestamp, extent.offset_of_max_timestamp, now_ms, done, aborted,
            headers if len(headers) > 1 else (),
        )  # fmt: skip
        return extent.records_count

    def _complete_duplicate(self, earlier: Duplicate, done: Done) -> AppendResult:
        """Return the result of the first append for a retry, and call `done` once that is written."""
        result = AppendResult(
            earlier.base_offset, earlier.last_offset, earlier.timestamp, self.log_start_offset, 0, duplicate=True
        )
        self._writer.when_written(earlier.last_offset + 1, done)
        return result

    def _note_batches(self, records: Buffer, headers: list[BatchHeader]) -> list[AbortedTxn]:
        """Update producers and epochs for batches that are about to be placed; returns the transactions that they abort."""
        position = 0
        aborted: list[AbortedTxn] = []
        for header in headers:
            if header.producer_id >= 0:
                ended = self._replay_producer(records, position, header)
                if ended is not None and ended.is_aborted:
                    aborted.append(self._producers.aborted(ended))
            if header.partition_leader_epoch > self._epoch_file.epochs.latest_epoch:
                self.assign_leader_epoch(header.partition_leader_epoch, header.base_offset)
            position += header.size_bytes
        return aborted

    # --- reading ---

    def read(self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool) -> Buffer | None:
        """Return bytes of the log from the batch that contains `fetch_offset`: at most `max_bytes`, and none of a batch that
        ends at or behind `limit_offset`; the last batch may be incomplete. None when they are not in memory: use `read_cold`.

        `at_least_one`: the first batch is returned whole, however large it is. Raises OFFSET_OUT_OF_RANGE.
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
                log_end_offset=self.log_end_offset,
            )
        except OSError as error:
            raise self._read_error(error) from error

    def read_to_send(
        self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool
    ) -> Buffer | FileRange | None:
        """Like `read`, for a connection that takes ranges of files: many committed bytes may be one."""
        limit_offset = self._check_range(fetch_offset, limit_offset)
        if fetch_offset >= limit_offset:
            return EMPTY
        try:
            return self._reader.read_to_send(
                fetch_offset,
                limit_offset,
                max_bytes,
                at_least_one=at_least_one,
                log_end_offset=self.log_end_offset,
                ranges_below=self.high_watermark,
            )
        except OSError as error:
            raise self._read_error(error) from error

    def _read_error(self, error: OSError | CorruptTxnIndex) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Reading {self.directory} failed: {reason_of(error)}")

    async def read_cold(self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool) -> Buffer:
        """Like `read`, waiting for the disk in reader threads."""
        limit_offset = self._check_range(fetch_offset, limit_offset)
        if fetch_offset >= limit_offset:
            return EMPTY
        return await self._reader.read_cold(
            fetch_offset,
            limit_offset,
            max_bytes,
            at_least_one=at_least_one,
            log_end_offset=partial(self._end_offset_behind, fetch_offset),
        )

    async def read_cold_with_aborted(
        self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool
    ) -> tuple[Buffer, list[AbortedTxn]]:
        """Like `read` and `aborted_in`, waiting for the disk in reader threads: both of one state of the log."""
        limit_offset = self._check_range(fetch_offset, limit_offset)
        if fetch_offset >= limit_offset:
            return EMPTY, []
        try:
            return await self._reader.read_cold_with_aborted(
                fetch_offset,
                limit_offset,
                max_bytes,
                at_least_one=at_least_one,
                log_end_offset=partial(self._end_offset_behind, fetch_offset),
            )
        except CorruptTxnIndex as error:
            raise self._read_error(error) from error

    def _check_range(self, fetch_offset: int, limit_offset: int) -> int:
        """Return the end of the readable range. Raises OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""
        if self._is_idle:
            end_offset = self.next_offset
        else:
            writer = self._writer
            if writer.refusals.failure is not None:
                raise writer.refusals.failure.again()
            end_offset = writer.log_end_offset
        if self._is_closed:
            raise self._closed()
        if not self.log_start_offset <= fetch_offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {fetch_offset} of {self._name} is not in [{self.log_start_offset}, {end_offset}].",
            )
        return min(limit_offset, end_offset)

    def _end_offset_behind(self, fetch_offset: int) -> int:
        """Return the log end offset. Raises OFFSET_OUT_OF_RANGE when the log begins behind `fetch_offset` by now: returning
        later records would hide the gap. (Readers detect a truncated log by epochs.)"""
        if fetch_offset < self.log_start_offset:
            self._check_range(fetch_offset, fetch_offset)
        return self.log_end_offset

    def bytes_between(self, start_offset: int, limit_offset: int) -> int:
        """Count the bytes that a read from `start_offset` to `limit_offset` could return; an estimate when they are cold, or
        cannot be read, which the read reports. Raises CORRUPT_MESSAGE when the data at one of the offsets is not a batch."""
        end_offset = self.log_end_offset
        limit_offset = min(limit_offset, end_offset)
        if start_offset >= limit_offset:
            return 0
        try:
            return self._reader.bytes_between(start_offset, limit_offset, end_offset)
        except OSError:
            return self.size_bytes

    def aborted_in(self, fetch_offset: int, size_bytes: int) -> list[AbortedTxn] | None:
        """Return the aborted transactions that overlap the `size_bytes` bytes that `read` has just returned at `fetch_offset`,
        as in Kafka's fetch response. None when that needs the disk: use `read_cold_with_aborted`. Raises KAFKA_STORAGE_ERROR.
        """
        try:
            return self._reader.aborted_in(fetch_offset, size_bytes, self.log_end_offset)
        except (OSError, CorruptTxnIndex) as error:
            raise self._read_error(error) from error

    async def aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """Return those that overlap [start_offset, upper_bound_offset), in the order of their markers. Raises
        CorruptTxnIndex."""
        return await self._reader.aborted_between(start_offset, upper_bound_offset)

    async def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Find the first record whose timestamp is at least `timestamp`."""
        return await self._reader.offset_for_timestamp(timestamp, self.log_start_offset)

    async def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Find the first record with the largest timestamp of the log; None for a log without records. It may be a record that
        DeleteRecords has deleted, while the files still contain it, or one without a timestamp when no record has any."""
        return await self._reader.offset_of_max_timestamp()

    async def segment_times(self) -> list[tuple[int, int]]:
        """Return (base offset, modification time in ms) of each segment, in order, without segments that begin behind the
        written end. ListOffsets v0 uses it. Raises KAFKA_STORAGE_ERROR."""
        end_offset = self.log_end_offset
        segments = [segment for segment in self._segments if segment.base_offset <= end_offset]
        try:
            times = await self._environment.readers.run(partial(written_times, self._environment.filesystem, segments))
        except OSError as error:
            raise self._read_error(error) from error
        return [(segment.base_offset, time_ms) for segment, time_ms in zip(segments, times, strict=True)]
