"""Finds the first record of a segment with a given timestamp, for ListOffsets by time.

    chunk of the segment -> `next_batch`: is a batch in it that may hold the record? -> `first_in_batch`: does it?

An index leads near the record, but nothing leads to it for sure: what it leads to may be deleted, and a producer writes into
the header of a batch which timestamp is the largest, as it likes. Then all that is behind it is looked at, so whoever walks
goes by pieces: of the segment, and of a batch with many records, a small one compressed among them.

Rules: pure. `first_in_batch` stops every `STEP_RECORDS` records and every chunk that was decompressed, so that its caller can
yield to the loop.
Source: Kafka LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp, RecordBatch.offsetOfMaxTimestamp.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from protocol.primitives import Buffer
from protocol.records.any_format import any_records_in_steps, read_any_header
from protocol.records.batch import BatchHeader
from storage.segments.segment import MIN_BATCH_BYTES, Segment, check_length
from storage.segments.stored_batches import MAX_LOADED_BYTES

STEP_RECORDS = 256


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """The result of a search by timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Sought:
    """A record at or behind `start_offset` whose timestamp is at least `timestamp`; or, the largest of a segment, is it. That
    may lie before what the log begins with."""

    timestamp: int
    start_offset: int = 0
    is_largest: bool = False
    """As in Kafka only the first batch is looked into then, and no message of format v0."""

    def may_be_in(self, header: BatchHeader) -> bool:
        return self._fits(header.max_timestamp)

    def is_at(self, offset: int, timestamp: int) -> bool:
        return self._fits(timestamp) and offset >= self.start_offset

    def _fits(self, timestamp: int) -> bool:
        return timestamp == self.timestamp if self.is_largest else timestamp >= self.timestamp


def next_batch(
    chunk: Buffer, at: int, segment: Segment, position: int, sought: Sought
) -> tuple[int, BatchHeader | None]:
    """Find the first batch from `at` on that may contain the record, of those whose headers are complete in the chunk. Returns
    (its position in the chunk, header), or (position of the next batch, None). The chunk begins at `position` of the segment.
    Raises CORRUPT_MESSAGE."""
    last_at = len(chunk) - MIN_BATCH_BYTES
    while at <= last_at or not at:  # the last message of an old segment may be smaller than any batch
        header = read_any_header(chunk, at)
        check_length(segment, header.batch_length, position + at)
        if sought.may_be_in(header):
            return at, header
        at += header.size_bytes
    return at, None


def first_in_batch(batch: Buffer, header: BatchHeader, sought: Sought) -> Generator[None, None, TimestampOffset | None]:
    """Find the first such record of the batch at the start of `batch`. Raises InvalidBatch."""
    if sought.is_largest and not header.magic:
        return None
    records = yield from any_records_in_steps(batch, 0, header, MAX_LOADED_BYTES)
    for number, record in enumerate(records, 1):
        if sought.is_at(record.offset, record.timestamp):
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        if not number % STEP_RECORDS:
            yield
    return None
