"""Checks of the records in a batch, made before it is stored, without a record object.

`check_structure` walks from length to length: as many records as the header says, ending exactly at the end of the
batch, the last of them with the last offset delta. It is what every produced batch goes through, so its inner loop is
three table look-ups a record, and a run of records of one size is checked by two strided slices.
`walk_fields` reads every field of every record as Apache Kafka does, for those who need timestamps or keys.

Rules: pure; one pass; compressed batches go through in chunks of about a MiB, whatever they decompress to.
Invariant: both accept exactly what the plain walk over the varints accepts; the run check only gets there faster.
Source: Kafka DefaultRecordBatch (RecordIterator), DefaultRecord.readFrom, LogValidator.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import ErrorCode
from protocol.primitives import Buffer, DecodeError
from protocol.records.batch import COMPRESSION_MASK, HEADER_BYTES, BatchHeader
from protocol.records.compression import TooManySteps, decompress_chunks
from protocol.records.invalid import InvalidBatch
from protocol.records.record import broken_record, plain_records, records_block, wrap_int64
from protocol.varint import decode_varint, decode_varlong

MIN_RECORD_BYTES = 6
"""Behind the length: attributes, two deltas, two lengths, a headers count, a byte each."""
_BEYOND = 1 << 62  # a step that leads behind the end of anything

# Bytes from a record's start to the next one's, by the bytes of its length. A negative length, and one below the
# minimum, leads _BEYOND; 0 says that one more byte has to be looked at.
_STEP_OF_FIRST = [
    0 if byte & 0x80 else _BEYOND if byte & 1 or byte >> 1 < MIN_RECORD_BYTES else 1 + (byte >> 1)
    for byte in range(256)
]
_STEP_OF_SECOND = [0 if byte & 0x80 else 2 + (byte << 6) for byte in range(256)]
_LOW_BITS = [_BEYOND if byte & 1 else (byte & 0x7F) >> 1 for byte in range(256)]

_FIRST_RUN_RECORDS = 64
_MIN_RUN_RECORDS = 8
_PLAIN_RECORDS = 64  # walked one by one between two looks for a run
_MAX_PREFIX_BYTES = 5 + 1 + 10 + 5  # length, attributes, timestamp delta, offset delta


def check_structure(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> None:
    """Raises InvalidBatch, TooManySteps. `header` is that of the batch at `position`."""
    count = header.records_count
    if count == 1 and _is_plain_record(buffer, position, header):
        return
    block = records_block(buffer, position, header)
    if count <= 0:
        _check_empty(header, block, max_decompressed_bytes, max_steps)
        return
    if header.is_compressed:
        chunks = decompress_chunks(header.compression, block, max_decompressed_bytes, max_steps)
        last, left = _last_record(chunks, *_walk(chunks, count - 1))
    else:
        at, missing = _walk_chunk(block, 0, count - 1)
        if missing or at >= len(block):
            raise _too_short(count - missing, count)
        last, left = block[at:], len(block) - at
    _check_last(last, left, count, header.last_offset_delta)


def _is_plain_record(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether this is, byte for byte, what most producers send as a batch of one: its record fills it, and both deltas
    are 0. What is not is looked at in full."""
    end = position + header.size_bytes
    if header.attributes & COMPRESSION_MASK or header.last_offset_delta or end > len(buffer):
        return False
    at = position + HEADER_BYTES
    if at + 2 + MIN_RECORD_BYTES > end:
        return False
    step = _STEP_OF_FIRST[buffer[at]]
    behind_length = at + 1
    if not step:
        behind_length = at + 2
        step = _STEP_OF_SECOND[buffer[at + 1]]
        if not step:
            return False
        step += _LOW_BITS[buffer[at]]
    return at + step == end and not buffer[behind_length + 1] and not buffer[behind_length + 2]


def _check_empty(header: BatchHeader, block: memoryview, max_decompressed_bytes: int, max_steps: int | None) -> None:
    count = header.records_count
    if count < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"The batch has {count} records.")
    if len(block) and any(decompress_chunks(header.compression, block, max_decompressed_bytes, max_steps)):
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "The batch has records, its header says none.")


def _too_short(index: int, count: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.INVALID_RECORD,
        f"The batch of {count} records ends with or inside record {index}, or that record's length is not valid.",
    )


def _last_record(chunks: Iterator[Buffer], rest: Buffer, at: int) -> tuple[Buffer, int]:
    """The first bytes of the last record, which begins at `at` in `rest`, and how many it has: maybe many chunks."""
    prefix, left = bytes(rest[at : at + _MAX_PREFIX_BYTES]), len(rest) - at
    for chunk in chunks:
        left += len(chunk)
        prefix = (prefix + bytes(chunk[:_MAX_PREFIX_BYTES]))[:_MAX_PREFIX_BYTES]
    return prefix, left


def _walk(chunks: Iterator[Buffer], count: int) -> tuple[Buffer, int]:
    """Step over `count` records; the chunk that then is current, and the position in it."""
    chunk: Buffer = b""
    position, left = 0, count
    for following in chunks:
        if position >= len(chunk):
            position -= len(chunk)
            chunk = following
        else:  # a length that two chunks share
            chunk = b"".join((memoryview(chunk)[position:], following))
            position = 0
        position, left = _walk_chunk(chunk, position, left)
        if not left and position < len(chunk):
            return chunk, position
        if position >= _BEYOND:
            break
    raise _too_short(count - left, count + 1)


def _walk_chunk(chunk: Buffer, position: int, count: int) -> tuple[int, int]:
    """Step over up to `count` records; where that ends, maybe behind the chunk, and how many were left then."""
    step_of_first, step_of_second, low_bits = _STEP_OF_FIRST, _STEP_OF_SECOND, _LOW_BITS
    left = count
    run_records = _FIRST_RUN_RECORDS
    step = 0
    try:
        while left:
            stop = max(left - _PLAIN_RECORDS, 0)
            before = 0
            for left in range(left, stop, -1):  # noqa: B007, B020 - `left` must be right when the chunk ends
                before = step
                first = chunk[position]
                step = step_of_first[first]
                if not step:
                    step = step_of_second[chunk[position + 1]]
                    step = step + low_bits[first] if step else _long_step(chunk, position)
                position += step
            left = stop
            if step == before and left >= _MIN_RUN_RECORDS:
                run = _run(chunk, position, step, min(left, run_records))
                position += run * step
                left -= run
                run_records = run_records * 4 if run == run_records else _FIRST_RUN_RECORDS
    except IndexError:
        pass
    return position, left


def _run(chunk: Buffer, position: int, step: int, count: int) -> int:
    """How many of the next `count` records have the length that makes `step`, encoded in one or two bytes."""
    count = min(count, (len(chunk) - position) // step)
    if count < _MIN_RUN_RECORDS:
        return 0
    end = position + count * step
    first = chunk[position]
    if _STEP_OF_FIRST[first] == step:
        return _equal_bytes(chunk[position:end:step])
    if _STEP_OF_SECOND[chunk[position + 1]] + _LOW_BITS[first] != step or first < 0x80:
        return 0
    return min(_equal_bytes(chunk[position:end:step]), _equal_bytes(chunk[position + 1 : end : step]))


def _equal_bytes(column: Buffer) -> int:
    """How many bytes at the front are the same."""
    plain = bytes(column)
    return len(plain) - len(plain.lstrip(plain[:1]))


def _long_step(chunk: Buffer, position: int) -> int:
    """The step over a record whose length takes three bytes or more. Raises IndexError when they are not all there."""
    length = shift = 0
    for at in range(position, position + 5):
        byte = chunk[at]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            length &= 0xFFFFFFFF
            return _BEYOND if length & 1 or length >> 1 < MIN_RECORD_BYTES else at + 1 - position + (length >> 1)
    return _BEYOND


def _check_last(record: Buffer, left: int, count: int, last_offset_delta: int) -> None:
    """`record` is the last one, or its first bytes; `left` bytes are there from its start to the end of the batch."""
    try:
        length, at = _varint(record, 0)
        if length < MIN_RECORD_BYTES or at + length != left:
            raise broken_record(count - 1, f"it says {length} bytes, and {left - at} are left in the batch")
        _, at = decode_varlong(record, at + 1)
        offset_delta, at = _varint(record, at)
    except DecodeError as error:
        raise broken_record(count - 1, str(error)) from error
    if offset_delta != last_offset_delta:
        raise broken_record(count - 1, f"its offset delta is {offset_delta}, that of the batch {last_offset_delta}")


def check_full(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> None:
    """Every field of every record. Raises InvalidBatch, TooManySteps."""
    for _ in walk_fields(buffer, position, header, max_decompressed_bytes, max_steps):
        pass


def walk_fields(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> Iterator[tuple[int, bool]]:
    """(timestamp, whether there is a key) of each record; offset deltas must be 0, 1, 2...

    Raises InvalidBatch, also after the last record when bytes are left; and TooManySteps, when there are `max_steps`, before
    more record headers than so many are walked over.
    """
    block = plain_records(buffer, position, header, max_decompressed_bytes, max_steps)
    headers_left = len(block) if max_steps is None else max_steps
    end = len(block)
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    try:
        for index in range(header.records_count):
            length, at = _varint(block, at)
            record_end = at + length
            if length < MIN_RECORD_BYTES or record_end > end:
                raise broken_record(index, f"it says {length} bytes, and {end - at} are left in the batch")
            timestamp_delta, at = decode_varlong(block, at + 1)
            offset_delta, at = _varint(block, at)
            if offset_delta != index:
                raise broken_record(index, f"its offset delta is {offset_delta}")
            key_length, at = _varint(block, at)
            value_length, at = _varint(block, at + key_length if key_length > 0 else at)
            if value_length > 0:
                at += value_length
            # Nearly all records end with a headers count of 0.
            if at < record_end and not block[at]:
                at += 1
            else:
                headers_count, at = _headers_count(block, at, record_end)
                headers_left -= headers_count
                if headers_left < 0:
                    raise TooManySteps
                at = _skip_headers(block, at, headers_count)
            if at != record_end:
                raise broken_record(index, f"its fields end at {at}, its length says {record_end}")
            timestamp = wrap_int64(base_timestamp + timestamp_delta) if append_time is None else append_time
            yield timestamp, key_length >= 0
    except DecodeError as error:
        raise broken_record(index, str(error)) from error
    if at != end:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"{end - at} bytes follow the {header.records_count} records.")


def _varint(block: Buffer, at: int) -> tuple[int, int]:
    """`decode_varint`, sooner done with lengths that take one or two bytes. Raises DecodeError."""
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


def _headers_count(block: Buffer, at: int, end: int) -> tuple[int, int]:
    """How many headers a record has that ends at `end`, and where the first one begins. Raises DecodeError."""
    headers_count, at = _varint(block, at)
    if not 0 <= headers_count <= max(end - at, 0):
        raise DecodeError(f"{headers_count} headers")
    return headers_count, at


def _skip_headers(block: Buffer, at: int, headers_count: int) -> int:
    """Where a record's fields end. Raises DecodeError."""
    for _ in range(headers_count):
        length, at = _varint(block, at)
        if length < 0:
            raise DecodeError("a header without a key")
        length, at = _varint(block, at + length)
        at += max(length, 0)
    return at
