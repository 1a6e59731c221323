"""Reads the records of a batch v2 one by one, and builds batches.

    length varint | attributes int8 | timestamp_delta varlong | offset_delta varint | key length varint, key
    | value length varint, value | headers count varint, then of each: key length, key, value length, value

A key or value of length -1 is null. The produce and fetch paths do not use this module: it serves coordinators, searches by
timestamp, cleaning, tools and tests.

Rules: pure. Source: KIP-98; Kafka DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct

from protocol.errors import ErrorCode
from protocol.java_text import AS_JAVA
from protocol.primitives import Buffer, DecodeError
from protocol.records.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_of,
)
from protocol.records.compression import (
    Compression,
    CompressionStream,
    DecompressionTooLarge,
    compress,
    decompress,
    decompress_chunks,
)
from protocol.records.invalid import InvalidBatch
from protocol.varint import ONE_BYTE_VALUES, decode_varint, decode_varlong, encode_varint, encode_varlong

_CRC = Struct(">I")
_CRC_POSITION = 17
_NULL = encode_varint(-1)
_NO_ATTRIBUTES = b"\x00"
_NO_HEADERS = b"\x00"
_KEPT_ATTRIBUTES = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT  # of a batch that is rebuilt
MAX_INT64 = (1 << 63) - 1
_INT64 = 1 << 64


@dataclass(slots=True)
class Record:
    """One record. `timestamp` in ms, NO_TIMESTAMP for none; header keys may repeat.

    A header key that is not valid UTF-8 is read with U+FFFD, as in Apache Kafka: producers may store any bytes there.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def plain_records(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> Buffer:
    """Return the batch's records as one block: decompressed, or a view if they are not compressed. Raises InvalidBatch,
    TooManySteps."""
    block = records_block(buffer, position, header)
    codec = header.compression
    return block if codec is Compression.NONE else decompress(codec, block, max_decompressed_bytes, max_steps)


def records_block(buffer: Buffer, position: int, header: BatchHeader) -> memoryview:
    """Return the bytes after the header, unchanged. Raises InvalidBatch when the buffer ends before the batch does."""
    end = position + header.size_bytes
    if end > len(buffer):
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, f"The batch says {header.size_bytes} bytes; {len(buffer) - position} are there."
        )
    return memoryview(buffer)[position + HEADER_BYTES : end]


def iter_records(buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int) -> Iterator[Record]:
    """Iterate over the records of one batch, in order, as copies. Raises InvalidBatch when they are malformed."""
    yield from iter_plain_records(bytes(plain_records(buffer, position, header, max_decompressed_bytes)), header)


def iter_plain_records(block: bytes, header: BatchHeader, *, with_headers: bool = True) -> Iterator[Record]:
    """Iterate over the records of the batch's decompressed block; records keep slices of it as copies. Without `with_headers`
    record headers are skipped unread, however many there are."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    for index in range(header.records_count):
        try:
            length, at = decode_varint(block, at)
            end = at + length
            record, at = _read(block, at + 1, with_headers=with_headers)
            if not with_headers and at < end:
                at = end
        except DecodeError as error:
            raise broken_record(index, str(error)) from error
        if at != end or at > len(block):
            raise broken_record(index, f"its fields end at {at}, its length says {end}")
        record.offset += base_offset
        record.timestamp = wrap_int64(record.timestamp + base_timestamp) if append_time is None else append_time
        yield record
    if at != len(block):
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, f"{len(block) - at} bytes follow the {header.records_count} records of the batch."
        )


def record_spans(block: bytes, position: int, end: int, count: int) -> Iterator[tuple[int, int]]:
    """Iterate over (start, end) of each of `count` records in [position, end) of decompressed bytes; nothing but their
    lengths is read. Raises InvalidBatch."""
    at = position
    for index in range(count):
        try:
            length, start = decode_varint(block, at)
        except DecodeError as error:
            raise broken_record(index, str(error)) from error
        at = start + length
        if length < 0 or at > end:
            raise broken_record(index, f"it says {length} bytes, {end - start} are left")
        yield start, at


def read_record(block: bytes, start: int, end: int, header: BatchHeader) -> Record:
    """Return the record of a batch at one of its `record_spans`. Raises InvalidBatch."""
    try:
        record, at = _read(block, start + 1, with_headers=True)
    except DecodeError as error:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A record of the batch is broken: {error}") from error
    if at != end:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, f"A record of the batch is broken: its fields end at {at}, its length says {end}"
        )
    record.offset += header.base_offset
    if header.is_log_append_time:
        record.timestamp = header.max_timestamp
    else:
        record.timestamp = wrap_int64(record.timestamp + header.base_timestamp)
    return record


def read_headers(block: bytes) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record from the bytes that begin with their count; more bytes may follow. Raises InvalidBatch."""
    try:
        count, at = decode_varint(block, 0)
        headers, at = _read_headers(block, at, count)
    except DecodeError as error:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A record of the batch is broken: {error}") from error
    if at > len(block):
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "A record of the batch is broken: its headers are longer than it")
    return headers


def broken_record(index: int, problem: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"Record {index} of the batch is broken: {problem}")


def wrap_int64(value: int) -> int:
    """Return `value` with the overflow of Java's long: base timestamp and delta of a record are added without a check."""
    return (value + MAX_INT64 + 1) % _INT64 - MAX_INT64 - 1


def _read(block: bytes, at: int, *, with_headers: bool) -> tuple[Record, int]:
    """Read a record after its attributes, with deltas in place of offset and timestamp; return it and the position reached.

    A slice beyond the end of `block` is short: the caller detects that when it checks the end.
    """
    timestamp_delta, at = decode_varlong(block, at)
    offset_delta, at = decode_varint(block, at)
    key, at = _read_bytes(block, at)
    value, at = _read_bytes(block, at)
    headers_count, at = decode_varint(block, at)
    if headers_count and with_headers:
        headers, at = _read_headers(block, at, headers_count)
    else:
        headers = []
    return Record(offset_delta, timestamp_delta, key, value, headers), at


def _read_headers(block: bytes, at: int, count: int) -> tuple[list[tuple[str, bytes | None]], int]:
    if not 0 <= count <= len(block) - at:
        raise DecodeError(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_bytes(block, at)
        if name is None:
            raise DecodeError("a header without a key")
        value, at = _read_bytes(block, at)
        headers.append((str(name, "utf-8", AS_JAVA), value))
    return headers, at


def _read_bytes(block: bytes, at: int) -> tuple[bytes | None, int]:
    if at < len(block) and block[at] < len(ONE_BYTE_VALUES):  # nearly always
        length = ONE_BYTE_VALUES[block[at]]
        at += 1
    else:
        length, at = decode_varint(block, at)
    if length < 0:
        return None, at
    end = at + length
    return block[at:end], end


# --- building ---


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = -1,
    log_append_time_ms: int | None = None,
    keep_offsets: bool = False,
) -> bytes:
    """Encode one batch of `records`, at least one.

    Offsets count up from `base_offset`; with `keep_offsets` the records keep their own (rising, from `base_offset` on),
    as in a compacted log.
    """
    assert records, "a batch has records"
    base_timestamp = records[0].timestamp
    if keep_offsets:
        deltas: Sequence[int] = [record.offset - base_offset for record in records]
        assert deltas[0] >= 0 and all(low < high for low, high in pairwise(deltas))
    else:
        deltas = range(len(records))
    block = b"".join(
        [
            encode_record(record, delta, record.timestamp - base_timestamp)
            for record, delta in zip(records, deltas, strict=True)
        ]
    )
    max_timestamp = max(record.timestamp for record in records) if log_append_time_ms is None else log_append_time_ms
    attributes = (
        compression
        | (LOG_APPEND_TIME_BIT if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
    )
    return assemble(
        base_offset, partition_leader_epoch, attributes, deltas[-1], base_timestamp, max_timestamp,
        (producer_id, producer_epoch, base_sequence), len(records), compress(compression, block, level),
    )  # fmt: skip


def recompress(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    compression: Compression,
    level: int | None,
    max_decompressed_bytes: int,
    max_compressed_bytes: int | None = None,
) -> bytes:
    """Return the batch in another codec: unchanged records, a header with the new codec, length and CRC, and only the
    attributes that Kafka itself sets. The output can be limited too. Raises InvalidBatch, DecompressionTooLarge."""
    stream = CompressionStream(compression, level)
    block = records_block(buffer, position, header)
    for chunk in decompress_chunks(header.compression, block, max_decompressed_bytes):
        stream.write(bytes(chunk))
        if max_compressed_bytes is not None and stream.size_bytes > max_compressed_bytes:
            raise DecompressionTooLarge(max_compressed_bytes)
    return assemble(
        header.base_offset, header.partition_leader_epoch, header.attributes & _KEPT_ATTRIBUTES | compression,
        header.last_offset_delta, header.base_timestamp, header.max_timestamp,
        (header.producer_id, header.producer_epoch, header.base_sequence), header.records_count, stream.finish(),
    )  # fmt: skip


def empty_batch(header: BatchHeader) -> bytes:
    """Return what compaction retains of a producer's last batch without records: its header with offsets and sequence."""
    return assemble(
        header.base_offset, header.partition_leader_epoch,
        header.attributes & _KEPT_ATTRIBUTES, header.last_offset_delta, NO_TIMESTAMP,
        header.max_timestamp, (header.producer_id, header.producer_epoch, header.base_sequence), 0, b"",
    )  # fmt: skip


def assemble(
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int],
    records_count: int,
    block: Buffer,
) -> bytes:
    """Build a batch from a block of records, compressed as `attributes` say. `producer`: id, epoch, base sequence."""
    size_bytes = HEADER_BYTES + len(block)
    batch = bytearray(size_bytes)
    HEADER.pack_into(
        batch, 0, base_offset, size_bytes - LENGTH_OVERHEAD_BYTES, leader_epoch, MAGIC_V2, 0, attributes,
        last_offset_delta, base_timestamp, max_timestamp, *producer, records_count,
    )  # fmt: skip
    batch[HEADER_BYTES:] = block
    _CRC.pack_into(batch, _CRC_POSITION, crc_of(batch, 0, size_bytes))
    return bytes(batch)


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """Encode a record, preceded by its length."""
    key, value, headers = record.key, record.value, record.headers
    parts = [
        _NO_ATTRIBUTES,
        encode_varlong(timestamp_delta),
        encode_varint(offset_delta),
        *((_NULL,) if key is None else (encode_varint(len(key)), key)),
        *((_NULL,) if value is None else (encode_varint(len(value)), value)),
    ]
    if headers:
        parts.append(encode_varint(len(headers)))
        for name, header_value in headers:
            raw = name.encode()
            parts += (encode_varint(len(raw)), raw)
            parts += (_NULL,) if header_value is None else (encode_varint(len(header_value)), header_value)
    else:
        parts.append(_NO_HEADERS)
    body = b"".join(parts)
    return encode_varint(len(body)) + body
