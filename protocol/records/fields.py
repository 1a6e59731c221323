"""Reads every field of every record of a batch as Apache Kafka does, without record objects: for callers that need
timestamps or keys, or that check every offset.

Rules: pure; the batch is complete and decompressed. Offset deltas must be 0, 1, 2...
Source: Kafka DefaultRecordBatch (RecordIterator), DefaultRecord.readFrom, LogValidator.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import ErrorCode
from protocol.primitives import Buffer, DecodeError
from protocol.records.batch import BatchHeader
from protocol.records.compression import TooManySteps
from protocol.records.invalid import InvalidBatch
from protocol.records.record import broken_record, plain_records, wrap_int64
from protocol.varint import decode_varint, decode_varlong

MIN_RECORD_BYTES = 6
"""The minimum after the length: attributes, two deltas, two lengths, a headers count, a byte each."""


def check_full(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> None:
    """Check every field of every record. Raises InvalidBatch, TooManySteps."""
    for _ in walk_fields(buffer, position, header, max_decompressed_bytes, max_steps):
        pass


def walk_fields(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> Iterator[tuple[int, bool]]:
    """Iterate over (timestamp, whether there is a key) of each record; offset deltas must be 0, 1, 2...

    Raises InvalidBatch, also after the last record when bytes are left; and TooManySteps before more than `max_steps` record
    headers are read, when it is given.
    """
    block = plain_records(buffer, position, header, max_decompressed_bytes, max_steps)
    headers_left = len(block) if max_steps is None else max_steps
    end = len(block)
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    try:
        for index in range(header.records_count):
            length, at = read_varint(block, at)
            record_end = at + length
            if length < MIN_RECORD_BYTES or record_end > end:
                raise broken_record(index, f"it says {length} bytes, and {end - at} are left in the batch")
            timestamp_delta, at = decode_varlong(block, at + 1)
            offset_delta, at = read_varint(block, at)
            if offset_delta != index:
                raise broken_record(index, f"its offset delta is {offset_delta}")
            key_length, at = read_varint(block, at)
            value_length, at = read_varint(block, at + key_length if key_length > 0 else at)
            if value_length > 0:
                at += value_length
            # Nearly all records end with a headers count of 0.
            if at < record_end and not block[at]:
                at += 1
            else:
                headers_count, at = read_headers_count(block, at, record_end)
                headers_left -= headers_count
                if headers_left < 0:
                    raise TooManySteps
                at = skip_headers(block, at, headers_count)
            if at != record_end:
                raise broken_record(index, f"its fields end at {at}, its length says {record_end}")
            timestamp = wrap_int64(base_timestamp + timestamp_delta) if append_time is None else append_time
            yield timestamp, key_length >= 0
    except DecodeError as error:
        raise broken_record(index, str(error)) from error
    if at != end:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"{end - at} bytes follow the {header.records_count} records.")


def read_varint(block: Buffer, at: int) -> tuple[int, int]:
    """Like `decode_varint`, but faster for lengths of one or two bytes. Raises DecodeError."""
    try:
        first = block[at]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        second = block[at + 1]
    except IndexError:
        raise DecodeError("the batch ends inside a record") from None
    if second < 0x80:
        return (second << 6 | (first & 0x7F) >> 1) ^ -(first & 1), at + 2
    return decode_varint(block, at)


def read_headers_count(block: Buffer, at: int, end: int) -> tuple[int, int]:
    """Return the number of headers of a record that ends at `end`, and the position of the first. Raises DecodeError."""
    headers_count, at = read_varint(block, at)
    if not 0 <= headers_count <= max(end - at, 0):
        raise DecodeError(f"{headers_count} headers")
    return headers_count, at


def skip_headers(block: Buffer, at: int, headers_count: int) -> int:
    """Return the position after a record's headers. Raises DecodeError."""
    for _ in range(headers_count):
        length, at = read_varint(block, at)
        if length < 0:
            raise DecodeError("a header without a key")
        length, at = read_varint(block, at + length)
        at += max(length, 0)
    return at
