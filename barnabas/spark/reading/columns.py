"""Turns record batches into Arrow record batches with the columns of Spark's Kafka source, without an object per record. Pure.

A Python loop finds where records begin; everything else is numpy over all records of some batches: varints, offsets, times.
Keys and values are not cut out one by one: positions alternate between begin and end of a field, which makes them the
offsets of an Arrow array over the block itself, of which every second element is a field, and Arrow's `take` copies those.

Rules: pure. A batch v2 is decoded here; messages of the formats v0 and v1 go through `protocol.records.legacy`, record by
record.
Invariants: rows have rising offsets inside [start, end) of the range; control batches and aborted batches give no rows; a batch
whose checksum is wrong gives InvalidBatch, never rows. A timestamp that Spark cannot represent is reported, and null where the
report is not an error: it never becomes another time.
Source: Spark KafkaRecordToRowConverter for names, types and order of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.spark.client.ranges import OffsetRange
from barnabas.spark.reading.expired_records import find_expired
from barnabas.spark.reading.header_columns import HEADERS, header_column, header_column_of
from barnabas.spark.reading.varints import Positions, broken, check_lengths, decode_varints, record_bounds
from client.reading.committed import CommittedFilter
from protocol.errors import ErrorCode
from protocol.primitives import Buffer
from protocol.records.any_format import any_crc_is_valid, iter_any_headers, iter_any_records
from protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, plain_records

MAX_DECOMPRESSED_BYTES = 1 << 30
"""Of one batch."""
ROWS = 16 * 1024
"""An Arrow record batch is complete when it has so many rows or more."""
BLOCK_BYTES = 4 * 1024 * 1024
"""Or when its record batches have so many plain bytes or more."""
_MAX_MS = ((1 << 63) - 1) // 1000
"""Spark's timestamps are microseconds since 1970 in 64 bits; -_MAX_MS is the first one, as well."""

_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS = pa.schema([*_FIELDS, pa.field("headers", HEADERS)])


class RangeDecoder:
    """Decodes the record batches of one range, buffer by buffer, in order.

    `next_offset` is the offset to go on reading from. It is at or above the range's end when everything has been read.
    """

    def __init__(
        self,
        range: OffsetRange,  # noqa: A002
        lost: Callable[[str], None],
        *,
        include_headers: bool,
        check_crcs: bool = True,
        skip_expired_at_ms: int | None = None,
    ) -> None:
        """`lost` is called with a text when a record's timestamp cannot be represented; the timestamp is null if it returns.
        Records that have expired at `skip_expired_at_ms` are left out; None: none."""
        self._range = range
        self._lost = lost
        self._include_headers = include_headers
        self._check_crcs = check_crcs
        self._skip_expired_at_ms = skip_expired_at_ms
        self.next_offset = range.start

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self._range.end

    def skip_to(self, offset: int) -> None:
        """Leave out what is before `offset`, also where a batch with earlier records comes."""
        whole = self._range
        self.next_offset = min(offset, whole.end)
        self._range = OffsetRange(whole.topic, whole.partition, self.next_offset, whole.end)

    def advance(self, buffer: Buffer) -> int:
        """The offset behind the last whole batch of `buffer`: where the next fetch begins. Decodes nothing."""
        offset = self.next_offset
        for _, header in iter_any_headers(buffer):
            offset = max(offset, header.next_offset)
        return offset

    def decode(self, buffer: Buffer, batches: CommittedFilter) -> Iterator[pa.RecordBatch]:
        """The rows of the whole batches in `buffer` that `batches` keeps. Raises InvalidBatch."""
        block = self._new_block()
        for position, header in iter_any_headers(buffer):
            if header.last_offset < self.next_offset:
                # Also a batch that is skipped may abort a transaction, or end one.
                batches.keeps(buffer, position, header)
                continue
            if self.is_complete:
                break
            if header.magic == MAGIC_V2 and header.base_offset >= self._range.end:
                self.next_offset = self._range.end
                break
            if self._check_crcs and not any_crc_is_valid(buffer, position, header):
                raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"The checksum of {header} of {self._range} is wrong.")
            if batches.keeps(buffer, position, header):
                if header.magic == MAGIC_V2:
                    if block.is_full or not block.takes(header):
                        yield from block.rows()
                        block = self._new_block()
                    block.add(buffer, position, header)
                else:
                    yield from block.rows()
                    block = self._new_block()
                    yield from self._legacy_rows(buffer, position, header)
            self.next_offset = header.next_offset
        yield from block.rows()

    def _new_block(self) -> _Block:
        return _Block(self._range, self._lost, self._skip_expired_at_ms, include_headers=self._include_headers)

    def _legacy_rows(self, buffer: Buffer, position: int, header: BatchHeader) -> Iterator[pa.RecordBatch]:
        records = [
            record
            for record in iter_any_records(buffer, position, header, MAX_DECOMPRESSED_BYTES)
            if self._range.start <= record.offset < self._range.end
        ]
        if records:
            kind = -1 if header.magic == 0 else int(header.is_log_append_time)
            yield rows_of(self._range, records, kind, self._lost, include_headers=self._include_headers)


def rows_of(
    range: OffsetRange,  # noqa: A002
    records: list[Record],
    timestamp_type: int,
    lost: Callable[[str], None],
    *,
    include_headers: bool,
) -> pa.RecordBatch:
    """The rows of records that are objects already."""
    count = len(records)
    offsets = np.array([record.offset for record in records], np.int64)
    timestamps_ms = np.array([record.timestamp for record in records], np.int64)
    columns = [
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        *_places(range, count),
        pa.array(offsets),
        _timestamps(range, offsets, timestamps_ms, lost),
        pa.array(np.full(count, timestamp_type, np.int32)),
    ]
    if include_headers:
        columns.append(header_column_of([record.headers for record in records]))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS if include_headers else SCHEMA)


class _Block:
    """Some record batches of one range and one buffer, to become one Arrow record batch.

    Batches that are not compressed stay where they are: their buffer is the block. Those that are compressed are joined.
    """

    def __init__(
        self,
        range: OffsetRange,  # noqa: A002
        lost: Callable[[str], None],
        skip_expired_at_ms: int | None,
        *,
        include_headers: bool,
    ) -> None:
        self._range = range
        self._lost = lost
        self._skip_expired_at_ms = skip_expired_at_ms
        self._include_headers = include_headers
        self._headers: list[BatchHeader] = []
        self._buffer: Buffer | None = None
        self._plain: list[bytes] = []
        self._starts: list[Positions] = []  # of the records of each batch, behind their lengths
        self._count = 0
        self._size_bytes = 0
        self._end = 0  # of the records, in the block

    @property
    def is_full(self) -> bool:
        return self._count >= ROWS or self._size_bytes >= BLOCK_BYTES

    def takes(self, header: BatchHeader) -> bool:
        """Whether a batch fits the ones that are there: compressed ones and others do not mix."""
        return not self._headers or header.is_compressed == (self._buffer is None)

    def add(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        if header.records_count == 0:
            return
        if header.is_compressed:
            plain = bytes(plain_records(buffer, position, header, MAX_DECOMPRESSED_BYTES))
            starts, size_bytes = _record_starts(plain, 0, len(plain), header), len(plain)
            if self._size_bytes:
                base = self._size_bytes
                starts = starts + base
            self._plain.append(plain)
            self._end = self._size_bytes + size_bytes
        else:
            end = self._end = position + header.size_bytes
            starts, size_bytes = _record_starts(buffer, position + HEADER_BYTES, end, header), header.size_bytes
            self._buffer = buffer
        self._starts.append(starts)
        self._count += len(starts)
        self._headers.append(header)
        self._size_bytes += size_bytes

    def rows(self) -> Iterator[pa.RecordBatch]:
        """One Arrow record batch, or none when no record is in the range. Raises InvalidBatch."""
        if not self._starts:
            return
        block = b"".join(self._plain) if self._buffer is None else self._buffer
        data = np.frombuffer(block, np.uint8)
        starts = self._starts[0] if len(self._starts) == 1 else np.concatenate(self._starts)
        counts = np.array([header.records_count for header in self._headers], np.int64)
        timestamp_deltas, at = decode_varints(data, starts + 1)  # behind the attributes, which say nothing
        offset_deltas, at = decode_varints(data, at)
        offsets = np.repeat(self._of_headers("base_offset"), counts) + offset_deltas
        timestamps, types = self._times(counts, timestamp_deltas)
        key_starts, key_ends, no_key = _spans(data, at)
        value_starts, value_ends, no_value = _spans(data, key_ends)
        _check_ends(value_ends, starts, len(block))
        kept = self._kept(offsets)
        if self._skip_expired_at_ms is not None:
            ends = _record_ends(starts, self._end)
            expired = find_expired(block, starts, value_ends, ends, self._skip_expired_at_ms)
            if expired.size:
                kept = np.setdiff1d(np.arange(len(starts)) if kept is None else kept, expired, assume_unique=True)
        if kept is not None:
            if not kept.size:
                return
            offsets, timestamps, types = offsets[kept], timestamps[kept], types[kept]
        fields = np.empty(4 * len(starts) + 1, np.int32)
        fields[0:-1:4], fields[1::4], fields[2::4], fields[3::4] = key_starts, key_ends, value_starts, value_ends
        fields[-1] = len(block)
        pieces = pa.Array.from_buffers(
            pa.binary(), len(fields) - 1, [None, pa.py_buffer(fields), pa.py_buffer(block)]
        )  # key, gap, value, gap, key and so on
        columns = [
            _pick(pieces, 0, no_key, kept),
            _pick(pieces, 2, no_value, kept),
            *_places(self._range, len(offsets)),
            pa.array(offsets),
            _timestamps(self._range, offsets, timestamps, self._lost),
            pa.array(types),
        ]
        if self._include_headers:
            columns.append(header_column(block, data, value_ends, _record_ends(starts, len(block)), kept))
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS if self._include_headers else SCHEMA)

    def _of_headers(self, name: str) -> Positions:
        return np.array([getattr(header, name) for header in self._headers], np.int64)

    def _times(self, counts: Positions, deltas: Positions) -> tuple[Positions, npt.NDArray[np.int32]]:
        """(timestamps in ms, types: 0 given by the producer, 1 by the broker)."""
        append_time = np.array([header.is_log_append_time for header in self._headers], np.bool_)
        timestamps = np.repeat(self._of_headers("base_timestamp"), counts) + deltas
        types = np.repeat(append_time.astype(np.int32), counts)
        if append_time.any():
            by_broker = types != 0
            timestamps[by_broker] = np.repeat(self._of_headers("max_timestamp"), counts)[by_broker]
        return timestamps, types

    def _kept(self, offsets: Positions) -> Positions | None:
        """Which records are in the range; None for all of them."""
        inside = self._headers[0].base_offset >= self._range.start and self._headers[-1].last_offset < self._range.end
        if inside:
            return None
        return np.flatnonzero((offsets >= self._range.start) & (offsets < self._range.end))


def _record_starts(block: Buffer, at: int, end: int, header: BatchHeader) -> Positions:
    if not 0 < header.records_count <= end - at:
        raise broken(f"the batch says {header.records_count} records in {end - at} bytes")
    return record_bounds(block, at, end, header.records_count)


def _spans(data: npt.NDArray[np.uint8], at: Positions) -> tuple[Positions, Positions, npt.NDArray[np.bool_] | None]:
    """Fields with their lengths at `at`: (begins, ends, which are null; None when none is)."""
    lengths, begins = decode_varints(data, at)
    check_lengths(lengths, data)
    is_null = lengths < 0
    if is_null.any():
        return begins, begins + np.maximum(lengths, 0), is_null
    return begins, begins + lengths, None


def _record_ends(starts: Positions, end: int) -> Positions:
    """An upper bound of where each record ends: the next one's fields, or the end of the block."""
    return np.append(starts[1:], end)


def _check_ends(ends: Positions, starts: Positions, block_end: int) -> None:
    """The fields of a record must not reach into the next one: positions would not rise."""
    if (ends > _record_ends(starts, block_end)).any():
        raise broken("its fields are longer than it")


def _pick(
    pieces: pa.BinaryArray, first: int, is_null: npt.NDArray[np.bool_] | None, kept: Positions | None
) -> pa.BinaryArray:
    """Every fourth element from `first` on, as an array with its own bytes."""
    chosen = np.arange(first, len(pieces), 4, dtype=np.int32)
    if kept is not None:
        chosen = chosen[kept]
        is_null = None if is_null is None else is_null[kept]
    return pieces.take(pa.array(chosen, mask=is_null))


def _places(range: OffsetRange, count: int) -> Iterable[pa.Array]:  # noqa: A002
    """The columns topic and partition."""
    name = range.topic.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(name))
    topics = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(name * count)])
    return topics, pa.array(np.full(count, range.partition, np.int32))


def _timestamps(
    range: OffsetRange,  # noqa: A002
    offsets: Positions,
    timestamps_ms: Positions,
    lost: Callable[[str], None],
) -> pa.TimestampArray:
    """The column timestamp. A time beyond what Spark can represent is null, when `lost` returns."""
    beyond = (timestamps_ms > _MAX_MS) | (timestamps_ms < -_MAX_MS)
    mask = None
    if beyond.any():
        first, mask = int(beyond.argmax()), beyond
        lost(
            f"{range.topic}-{range.partition}: the record at offset {offsets[first]} has the timestamp "
            f"{timestamps_ms[first]} ms, which is beyond the times that Spark can represent"
        )
        timestamps_ms = np.where(beyond, 0, timestamps_ms)
    return pa.array(timestamps_ms * 1000, mask=mask).cast(pa.timestamp("us", tz="UTC"))
