"""Finds where the expired batches at the start of a log end (`barnabas.message.ttl.ms`).

    [ expired ][ expired ][ no timestamp ][ expired ][ newer ][ ... ]
    log start                                        end of what has expired

A batch has expired when its newest record is older than the limit. Batches expire in the order of the log: one that has not
expired keeps those behind it, whatever their timestamps are. A batch without timestamps is of unknown age; it expires with the
next one that has timestamps and has expired.

The time index leads near the end; from there on the headers are read, piece by piece. The next look begins where this one has
ended, so no batch is looked at again.

Rules: runs on the event loop, and changes nothing; what is cold is read in reader threads.
Invariant: what has expired ends with a whole batch, at or below the limit offset.
Source: ours; the order is that of Kafka's retention by time, which deletes whole segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from protocol.records.any_format import read_any_header
from runtime.slices import Slices
from storage.log.reading.log_reader import LogReader
from storage.segments.segment import (
    MIN_BATCH_BYTES,
    NO_TIMESTAMP,
    Cold,
    Segment,
    SegmentReader,
    check_length,
)

_PIECE_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class ExpiredBatches:
    """The result of a look at a log."""

    end_offset: int
    """The offset behind the last expired batch; where the look began if there is none."""
    next_offset: int
    """Where the next look begins: everything before it was looked at."""
    next_ms: int | None
    """The newest timestamp of the batch there, which has not expired; None when that is not known yet, because the batch is
    not committed, or the log ends there."""


async def find_expired(
    reader: LogReader, slices: Slices, *, start_offset: int, limit_offset: int, before_ms: int
) -> ExpiredBatches:
    """Find the batches in [start_offset, limit_offset) whose newest record is older than `before_ms`. Raises KafkaError."""

    async def attempt() -> ExpiredBatches:
        return await _find(reader, slices, start_offset, limit_offset, before_ms)

    return await reader.cold.retry_when_replaced(attempt)


async def _find(
    reader: LogReader, slices: Slices, start_offset: int, limit_offset: int, before_ms: int
) -> ExpiredBatches:
    cold, truncations = reader.cold, reader.cold.truncations
    end_offset = next_offset = start_offset
    for segment in reader.segments.starting_from(start_offset):
        position = await cold.run(partial(_position_near_end, segment, next_offset, limit_offset, before_ms))
        end = segment.written_bytes
        while position < end:
            left = end - position
            chunk = await cold.run(
                partial(
                    SegmentReader.log_bytes,
                    segment=segment,
                    length=min(_PIECE_BYTES, left),
                    position=position,
                    at_least=min(MIN_BATCH_BYTES, left),
                )
            )
            at, last_at = 0, len(chunk) - MIN_BATCH_BYTES
            while at <= last_at or not at:  # the last message of an old segment may be smaller than any batch
                header = read_any_header(chunk, at)
                check_length(segment, header.batch_length, position + at)
                at += header.size_bytes
                if header.last_offset < next_offset:
                    continue
                if header.last_offset >= limit_offset:
                    return ExpiredBatches(end_offset, next_offset, None)
                if header.max_timestamp >= before_ms:
                    return ExpiredBatches(end_offset, next_offset, header.max_timestamp)
                next_offset = header.last_offset + 1
                if header.max_timestamp > NO_TIMESTAMP:
                    end_offset = next_offset
            position += at
            await slices.yield_if_due()
            cold.raise_if_truncated_since(truncations)
    return ExpiredBatches(end_offset, next_offset, None)


def _position_near_end(segment: Segment, offset: int, limit_offset: int, before_ms: int, reader: SegmentReader) -> int:
    """Return a position at or before the batch of `offset`, or of a later batch that has expired, as all before it."""
    if segment.file is None:
        raise Cold(segment, ("", segment, 0, 0), None)
    index, limit = segment.time_index, limit_offset - segment.base_offset
    read = partial(reader.index_bytes, segment, index)
    entry = index.floor(before_ms - 1, read)
    if entry is not None and entry[1] >= limit:
        entry = index.floor_by_value(limit - 1, read)
    if entry is not None:
        offset = max(offset, segment.base_offset + entry[1])
    return segment.indexed_position(offset, reader)
