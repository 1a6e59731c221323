"""Reads one log within its bounds: the log start, the written end, a caller's limit.

Reading at the end, which every waiting consumer does, makes nothing: the `LogReader` is made when there is something to read.

Rules: methods run on the event loop; what is cold is read in reader threads, by the async methods. IO errors are raised as
`KafkaError`.
Invariants: a read returns no byte outside of the bounds; the offset of a read was not skipped when its records were deleted
meanwhile: then it raises OFFSET_OUT_OF_RANGE.
Source: Kafka UnifiedLog.read, LocalLog.read, UnifiedLog.fetchOffsetByTimestamp, collectAbortedTransactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import Buffer
from runtime.error_texts import reason_of
from runtime.network.file_range import FileRange
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.reading.log_reader import EMPTY, LogReader
from storage.log.reading.timestamp_search import TimestampOffset
from storage.segments.segment_age import written_times
from storage.segments.txn_index import AbortedTxn, CorruptTxnIndex

# What a read of damaged files fails with.
UNREADABLE = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE})
UNREADABLE_LOG_INTERVAL_MS = 60_000
NEVER_MS = -UNREADABLE_LOG_INTERVAL_MS

logger = logging.getLogger(__name__)


class LogReading:
    """The reads of one log."""

    __slots__ = (
        "_directory",
        "_environment",
        "_key",
        "_logged_ms",
        "_make_reader",
        "_offsets",
        "_readable_end",
        "_reader",
    )

    def __init__(
        self,
        key: TopicPartition,
        directory: str,
        environment: LogEnvironment,
        offsets: LogOffsets,
        readable_end: Callable[[], int],
        make_reader: Callable[[], LogReader],
    ) -> None:
        """`readable_end` returns the log end offset, and raises KAFKA_STORAGE_ERROR for a failed or closed log."""
        self._key = key
        self._directory = directory
        self._environment = environment
        self._offsets = offsets
        self._readable_end = readable_end
        self._make_reader = make_reader
        self._reader: LogReader | None = None
        self._logged_ms = NEVER_MS

    @property
    def reader(self) -> LogReader:
        """What reads the segments, made at the first use; it does not know the log's bounds."""
        reader = self._reader
        if reader is None:
            reader = self._reader = self._make_reader()
        return reader

    # --- byte ranges ---

    def read(self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool) -> Buffer | None:
        """Return bytes of the log from the batch that contains `fetch_offset`: at most `max_bytes`, and none of a batch that
        ends at or behind `limit_offset`; the last batch may be incomplete. None when they are not in memory: use `read_cold`.

        `at_least_one`: the first batch is returned whole, however large it is. Raises OFFSET_OUT_OF_RANGE.
        """
        end_offset = self._readable_end()
        if not self._offsets.log_start_offset <= fetch_offset <= end_offset:
            raise self._out_of_range(fetch_offset, end_offset)
        if limit_offset > end_offset:
            limit_offset = end_offset
        if fetch_offset >= limit_offset:
            return EMPTY
        try:
            return (self._reader or self.reader).read(fetch_offset, limit_offset, max_bytes, at_least_one=at_least_one)
        except OSError as error:
            raise self._read_error(error) from error

    def read_to_send(
        self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool
    ) -> Buffer | FileRange | None:
        """Like `read`, for a connection that takes ranges of files: many committed bytes may be one."""
        end_offset = self._check_range(fetch_offset)
        limit_offset = min(limit_offset, end_offset)
        if fetch_offset >= limit_offset:
            return EMPTY
        try:
            return self.reader.read_to_send(
                fetch_offset,
                limit_offset,
                max_bytes,
                at_least_one=at_least_one,
                ranges_below=self._offsets.high_watermark,
            )
        except OSError as error:
            raise self._read_error(error) from error

    async def read_cold(self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool) -> Buffer:
        """Like `read`, waiting for the disk in reader threads."""
        limit_offset = min(limit_offset, self._check_range(fetch_offset))
        if fetch_offset >= limit_offset:
            return EMPTY
        return await self.reader.read_cold(
            fetch_offset,
            limit_offset,
            max_bytes,
            at_least_one=at_least_one,
            check=partial(self._check_start, fetch_offset),
        )

    async def read_cold_with_aborted(
        self, fetch_offset: int, *, limit_offset: int, max_bytes: int, at_least_one: bool
    ) -> tuple[Buffer, list[AbortedTxn]]:
        """Like `read` and `aborted_in`, waiting for the disk in reader threads: both of one state of the log."""
        limit_offset = min(limit_offset, self._check_range(fetch_offset))
        if fetch_offset >= limit_offset:
            return EMPTY, []
        try:
            return await self.reader.read_cold_with_aborted(
                fetch_offset,
                limit_offset,
                max_bytes,
                at_least_one=at_least_one,
                check=partial(self._check_start, fetch_offset),
            )
        except CorruptTxnIndex as error:
            raise self._read_error(error) from error

    def bytes_between(self, start_offset: int, limit_offset: int) -> int:
        """Count the bytes that a read from `start_offset` to `limit_offset` could return; an estimate when they are cold, or
        cannot be read, which the read reports. Raises CORRUPT_MESSAGE when the data at one of the offsets is not a batch."""
        limit_offset = min(limit_offset, self._offsets.log_end_offset)
        if start_offset >= limit_offset:
            return 0
        try:
            return self.reader.bytes_between(start_offset, limit_offset)
        except OSError:
            return self.reader.segments.size_bytes

    def _check_range(self, fetch_offset: int) -> int:
        """Return the end of the log. Raises OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""
        end_offset = self._readable_end()
        if not self._offsets.log_start_offset <= fetch_offset <= end_offset:
            raise self._out_of_range(fetch_offset, end_offset)
        return end_offset

    def _out_of_range(self, fetch_offset: int, end_offset: int) -> KafkaError:
        topic, partition = self._key
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {fetch_offset} of {topic}-{partition} is not in [{self._offsets.log_start_offset}, {end_offset}].",
        )

    def _check_start(self, fetch_offset: int) -> None:
        """Raise OFFSET_OUT_OF_RANGE when the log begins behind `fetch_offset` by now: returning later records would hide the
        gap. (Readers detect a truncated log by epochs.)"""
        if fetch_offset < self._offsets.log_start_offset:
            self._check_range(fetch_offset)

    def _read_error(self, error: OSError | CorruptTxnIndex) -> KafkaError:
        if isinstance(error, OSError):
            self._environment.note_read_error(self._directory, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Reading {self._directory} failed: {reason_of(error)}")

    def log_unreadable(self, error: KafkaError, fetch_offset: int) -> None:
        """Log that a read has failed, at most once a minute: its client reads again and again. Not of a closed or failed log,
        whose failure is in the broker's log already."""
        if error.code not in UNREADABLE or not self._is_readable:
            return
        now_ms = self._environment.clock.monotonic_ms()
        if now_ms - self._logged_ms >= UNREADABLE_LOG_INTERVAL_MS:
            self._logged_ms = now_ms
            logger.error(
                "records cannot be read: topic=%s partition=%d offset=%d error=%s", *self._key, fetch_offset, error
            )

    @property
    def _is_readable(self) -> bool:
        """Whether the log is neither closed nor failed."""
        try:
            self._readable_end()
        except KafkaError:
            return False
        return True

    # --- aborted transactions ---

    def aborted_in(self, fetch_offset: int, size_bytes: int) -> list[AbortedTxn] | None:
        """Return the aborted transactions that overlap the `size_bytes` bytes that `read` has just returned at `fetch_offset`,
        as in Kafka's fetch response. None when that needs the disk: use `read_cold_with_aborted`. Raises KAFKA_STORAGE_ERROR.
        """
        try:
            return self.reader.aborted_in(fetch_offset, size_bytes)
        except (OSError, CorruptTxnIndex) as error:
            raise self._read_error(error) from error

    async def aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """Return those that overlap [start_offset, upper_bound_offset), in the order of their markers. Raises
        CorruptTxnIndex."""
        return await self.reader.aborted_between(start_offset, upper_bound_offset)

    # --- times ---

    async def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Find the first record whose timestamp is at least `timestamp`."""
        return await self.reader.offset_for_timestamp(timestamp, self._offsets.log_start_offset)

    async def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Find the first record with the largest timestamp of the log; None for a log without records. It may be a record that
        DeleteRecords has deleted, while the files still contain it, or one without a timestamp when no record has any."""
        return await self.reader.offset_of_max_timestamp()

    async def segment_times(self) -> list[tuple[int, int]]:
        """Return (base offset, modification time in ms) of each segment, in order, without segments that begin behind the
        written end. ListOffsets v0 uses it. Raises KAFKA_STORAGE_ERROR."""
        end_offset = self._offsets.log_end_offset
        segments = [segment for segment in self.reader.segments if segment.base_offset <= end_offset]
        environment = self._environment
        try:
            times = await environment.readers.run(partial(written_times, environment.filesystem, segments))
        except OSError as error:
            raise self._read_error(error) from error
        return [(segment.base_offset, time_ms) for segment, time_ms in zip(segments, times, strict=True)]
