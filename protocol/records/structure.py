"""Checks the records of a batch before it is stored, without record objects: each is complete, and its key, value and
headers fill it exactly, so that a reader can read the whole batch.

    a run      records of one shape (the same lengths at the same positions), checked column by column: strided slices
    usual      one record without headers, by table look-ups
    all others by the field reader of `fields`, which also reports what is wrong

Rules: pure; one pass; compressed batches are checked in chunks of about a MiB, whatever their decompressed size. Only the
last offset delta is compared with the header.
Invariant: accepts exactly what reading every field accepts, except for offset deltas; the fast paths have the same result.
Source: Kafka DefaultRecordBatch (RecordIterator), DefaultRecord.readFrom, LogValidator; decision 021.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import ErrorCode
from protocol.primitives import Buffer, DecodeError
from protocol.records.batch import COMPRESSION_MASK, HEADER_BYTES, BatchHeader
from protocol.records.compression import TooManySteps, decompress_chunks
from protocol.records.fields import MIN_RECORD_BYTES
from protocol.records.invalid import InvalidBatch
from protocol.records.record import broken_record, records_block
from protocol.varint import decode_varint, decode_varlong

# The size of a field with its length, by the first byte of the length: a negative length is null and takes only that
# byte; 0 means that one more byte has to be read.
_FIELD_OF_FIRST = [0 if byte & 0x80 else 1 if byte & 1 else 1 + (byte >> 1) for byte in range(256)]
# The same for lengths of two bytes, by the second byte; `_LOW_BITS` has what the first byte adds.
_FIELD_OF_SECOND = [0 if byte & 0x80 else 2 + (byte << 6) for byte in range(256)]
_LOW_BITS = [(byte & 0x7F) >> 1 for byte in range(256)]

_RUN_AFTER = 3  # consecutive records of one size before the next ones are checked as a run
_FIRST_RUN_RECORDS = 256
_MIN_RUN_RECORDS = 8
_PLAIN_RECORDS = 64  # checked one by one after no run was found
_MAX_RUN_HEADERS = 16
_MAX_RUN_DELTA_BYTES = 4  # of both deltas, beside the last byte of each
_MAX_VARINT_BYTES = 5
_MAX_VARLONG_BYTES = 10
_LOW = bytes(range(0x80))
_HIGH = bytes(range(0x80, 0x100))


def check_structure(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int, max_steps: int | None = None
) -> None:
    """Check the records of the batch at `position`, whose header is `header`. `max_steps` limits the record headers and the
    chunks of decompressed data. Raises InvalidBatch, TooManySteps."""
    count = header.records_count
    if count == 1 and _is_usual_single_record(buffer, position, header):
        return
    block = records_block(buffer, position, header)
    if count <= 0:
        _check_empty(header, block, max_decompressed_bytes, max_steps)
        return
    if header.is_compressed:
        chunks = decompress_chunks(header.compression, block, max_decompressed_bytes, max_steps)
    else:
        chunks = iter((block,))
    _Walk(chunks, count, max_steps).check(header.last_offset_delta)


def _is_usual_single_record(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether this is a batch of one record as most producers send it: its record fills it, both deltas are 0, and it
    has no headers. Any other batch is checked in full."""
    end = position + header.size_bytes
    if header.attributes & COMPRESSION_MASK or header.last_offset_delta or end > len(buffer):
        return False
    at = position + HEADER_BYTES
    if at + 2 + MIN_RECORD_BYTES > end:
        return False
    first = buffer[at]
    if first < 0x80:
        if at + 1 + (first >> 1) != end or first & 1:
            return False
        at += 2
    else:
        second = buffer[at + 1]
        if second >= 0x80 or first & 1 or at + 2 + (second << 6) + _LOW_BITS[first] != end:
            return False
        at += 3
    if buffer[at] or buffer[at + 1]:
        return False
    last = end - 1  # the number of headers
    at += 2
    step = _FIELD_OF_FIRST[buffer[at]]
    if not step or at + step >= last:
        return False
    at += step
    first = buffer[at]
    step = _FIELD_OF_FIRST[first]
    if not step:
        step = _FIELD_OF_SECOND[buffer[at + 1]]
        if not step or first & 1:
            return False
        step += _LOW_BITS[first]
    return at + step == last and not buffer[last]


def _check_empty(header: BatchHeader, block: memoryview, max_decompressed_bytes: int, max_steps: int | None) -> None:
    count = header.records_count
    if count < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"The batch has {count} records.")
    if len(block) and any(decompress_chunks(header.compression, block, max_decompressed_bytes, max_steps)):
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "The batch has records, its header says none.")


class _Walk:
    """One pass over `count` records in `chunks`. A record that spans chunks is read byte by byte."""

    def __init__(self, chunks: Iterator[Buffer], count: int, max_steps: int | None) -> None:
        self._chunks = chunks
        self._count = count
        self._headers_left = max_steps
        self._chunk: Buffer = b""
        self._at = 0
        self._left = 0  # of the record that is being read; negative until its own length is known

    def check(self, last_offset_delta: int) -> None:
        left = self._count
        offset_delta = 0
        self._chunk = next(self._chunks, b"")
        while left:
            self._at, left, headers, last_bytes = _walk_chunk(self._chunk, self._at, left)
            self._count_headers(headers)
            if left:
                offset_delta = self._read_record(self._count - left)
                left -= 1
            else:
                offset_delta = _offset_delta(self._chunk, self._at - last_bytes)
        if offset_delta != last_offset_delta:
            raise broken_record(
                self._count - 1, f"its offset delta is {offset_delta}, that of the batch {last_offset_delta}"
            )
        if self._at < len(self._chunk) or any(self._chunks):
            raise InvalidBatch(ErrorCode.INVALID_RECORD, f"Bytes follow the {self._count} records.")

    def _read_record(self, index: int) -> int:
        """Read the record at the current position, of any form. Returns its offset delta. Raises InvalidBatch,
        TooManySteps."""
        try:
            left = self._varint()
            if left < MIN_RECORD_BYTES:
                raise broken_record(index, f"it says {left} bytes")
            self._left = left
            self._skip(1)
            self._varint(_MAX_VARLONG_BYTES)
            offset_delta = self._varint()
            self._skip(max(self._varint(), 0))
            self._skip(max(self._varint(), 0))
            headers_count = self._varint()
            if not 0 <= headers_count <= self._left:
                raise broken_record(index, f"it has {headers_count} headers")
            self._count_headers(headers_count)
            for _ in range(headers_count):
                key_length = self._varint()
                if key_length < 0:
                    raise broken_record(index, "it has a header without a key")
                self._skip(key_length)
                self._skip(max(self._varint(), 0))
        except DecodeError as error:
            raise broken_record(index, str(error)) from error
        if self._left:
            raise broken_record(index, f"{self._left} of its bytes belong to no field")
        return offset_delta

    def _count_headers(self, count: int) -> None:
        if self._headers_left is not None:
            self._headers_left -= count
            if self._headers_left < 0:
                raise TooManySteps

    def _varint(self, max_bytes: int = _MAX_VARINT_BYTES) -> int:
        """Read a zigzag integer of up to `max_bytes`: of 32 bits or, with ten bytes, 64. Raises DecodeError."""
        value = shift = 0
        for _ in range(max_bytes):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= 0xFFFFFFFF if max_bytes == _MAX_VARINT_BYTES else 0xFFFFFFFFFFFFFFFF
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise DecodeError(f"a varint has more than {max_bytes} bytes")

    def _byte(self) -> int:
        while self._at >= len(self._chunk):
            self._next_chunk()
        byte = self._chunk[self._at]
        self._at += 1
        self._left -= 1
        return byte

    def _skip(self, size_bytes: int) -> None:
        self._left -= size_bytes
        if self._left < 0:
            raise DecodeError("a field is longer than its record")
        self._at += size_bytes
        while self._at > len(self._chunk):
            self._at -= len(self._chunk)
            self._chunk, at = b"", self._at
            self._next_chunk()
            self._at = at

    def _next_chunk(self) -> None:
        """Go to the start of the next chunk. Raises DecodeError after the last one."""
        following = next(self._chunks, None)
        if following is None:
            raise DecodeError(f"the batch of {self._count} records ends with or inside it")
        self._chunk, self._at = following, 0


def _walk_chunk(  # noqa: C901, PLR0915 - calls would cost more than what they do
    chunk: Buffer, position: int, count: int
) -> tuple[int, int, int, int]:
    """Check up to `count` records of the usual form that are complete in `chunk`. Returns the position after them, the number
    of records that remain, the number of headers, and the size of the last record. It stops before a record of another form
    or a malformed one, which the field reader checks."""
    field_of_first, field_of_second, low_bits = _FIELD_OF_FIRST, _FIELD_OF_SECOND, _LOW_BITS
    size = len(chunk)
    left, headers = count, 0
    run_records = _FIRST_RUN_RECORDS
    equal, plain, before = 0, _RUN_AFTER, 0
    try:
        while left:
            first = chunk[position]
            if first & 1:
                break
            if first < 0x80:
                end = position + 1 + (first >> 1)
                at = position + 2
            else:
                second = chunk[position + 1]
                if second >= 0x80:  # 8 KB or more: a few more steps do not matter
                    third = chunk[position + 2]
                    if third >= 0x80:
                        break
                    end = position + 3 + (third << 13) + ((second & 0x7F) << 6) + low_bits[first]
                    at = position + 4
                else:
                    end = position + 2 + (second << 6) + low_bits[first]
                    at = position + 3
            if end > size:
                break
            # The two deltas, of any value.
            if chunk[at] >= 0x80:
                at += 1
                if chunk[at] >= 0x80:
                    at += 1
                    if chunk[at] >= 0x80:
                        break
            at += 1
            if chunk[at] >= 0x80:
                at += 1
                if chunk[at] >= 0x80:
                    at += 1
                    if chunk[at] >= 0x80:
                        break
            at += 1
            step = field_of_first[chunk[at]]  # the key
            if not step:
                step = field_of_second[chunk[at + 1]]
                if not step or chunk[at] & 1:
                    break
                step += low_bits[chunk[at]]
            at += step
            first = chunk[at]
            step = field_of_first[first]  # the value
            if not step:
                second = chunk[at + 1]
                step = field_of_second[second]
                if first & 1:
                    break
                if step:
                    step += low_bits[first]
                else:
                    third = chunk[at + 2]
                    if third >= 0x80:
                        break
                    step = 3 + (third << 13) + ((second & 0x7F) << 6) + low_bits[first]
            at += step
            if chunk[at] or at + 1 != end:
                of_record = chunk[at]
                if of_record >= 0x80 or of_record & 1 or at >= end:
                    break
                at = _behind_headers(chunk, at + 1, of_record >> 1)
                if at != end:
                    break
                headers += of_record >> 1
            left -= 1
            step = end - position
            position = end
            if step == before:
                equal += 1
            else:
                before, equal = step, 0
            plain -= 1
            if plain <= 0 and equal >= _RUN_AFTER and left >= _MIN_RUN_RECORDS:
                run, run_headers = _run(chunk, position, step, min(left, run_records))
                position += run * step
                left -= run
                headers += run * run_headers
                run_records = run_records * 4 if run == run_records else _FIRST_RUN_RECORDS
                plain = 0 if run else _PLAIN_RECORDS
    except IndexError:
        pass
    return position, left, headers, before


def _behind_headers(chunk: Buffer, at: int, count: int) -> int:
    """Return the position after `count` headers at `at` if their lengths take one or two bytes; else -1. Raises IndexError."""
    for _ in range(count):
        first = chunk[at]
        if first & 1:
            return -1
        step = _FIELD_OF_FIRST[first]
        if not step:
            step = _FIELD_OF_SECOND[chunk[at + 1]]
            if not step:
                return -1
            step += _LOW_BITS[first]
        at += step
        first = chunk[at]
        step = _FIELD_OF_FIRST[first]
        if not step:
            step = _FIELD_OF_SECOND[chunk[at + 1]]
            if not step or first & 1:
                return -1
            step += _LOW_BITS[first]
        at += step
    return at


def _offset_delta(chunk: Buffer, at: int) -> int:
    """Return the offset delta of the record at `at`, which has the usual form."""
    _, at = decode_varint(chunk, at)
    _, at = decode_varlong(chunk, at + 1)
    return decode_varint(chunk, at)[0]


# --- runs ---


def _run(chunk: Buffer, position: int, step: int, count: int) -> tuple[int, int]:
    """Return how many of the next `count` records have the shape of the first one, which takes `step` bytes, and how many
    headers each of them has. (0, 0) when the first one is incomplete, unusual, or the only one."""
    count = min(count, (len(chunk) - position) // step)
    if count < _MIN_RUN_RECORDS:
        return 0, 0
    shape = _shape(bytes(chunk[position : position + step]))
    if shape is None:
        return 0, 0
    equal, high, low, headers = shape
    end = position + count * step
    for place in equal:
        column = bytes(chunk[position + place : end : step])
        count = min(count, len(column) - len(column.lstrip(column[:1])))
    for place in low:
        column = bytes(chunk[position + place : end : step])
        if not column.isascii():
            count = min(count, len(column) - len(column.lstrip(_LOW)))
    for place in high:
        column = bytes(chunk[position + place : end : step])
        count = min(count, len(column) - len(column.lstrip(_HIGH)))
    return (count, headers) if count >= _MIN_RUN_RECORDS else (0, 0)


def _shape(record: bytes) -> tuple[list[int], list[int], list[int], int] | None:
    """Return the shape of `record`: the positions of length bytes, of delta bytes with the highest bit set, and of delta
    bytes without it; and its number of headers. None when it is malformed or unusual."""
    equal, high, low = [0], [], []
    try:
        at = 2
        if record[0] >= 0x80:
            if record[1] >= 0x80:
                return None
            equal.append(1)
            at = 3
        for _ in range(2):  # the deltas
            while record[at] >= 0x80:
                high.append(at)
                at += 1
            low.append(at)
            at += 1
        if len(high) > _MAX_RUN_DELTA_BYTES:
            return None
        fields_left, headers = 2, -1
        while fields_left:
            first = record[at]
            equal.append(at)
            step = _FIELD_OF_FIRST[first]
            if not step:
                step = _FIELD_OF_SECOND[record[at + 1]]
                if not step or first & 1:
                    return None
                step += _LOW_BITS[first]
                equal.append(at + 1)
            if headers > 0 and not fields_left & 1 and first & 1:  # a header without a key
                return None
            at += step
            fields_left -= 1
            if not fields_left and headers < 0:
                headers = record[at]
                if headers & 1 or headers >> 1 > _MAX_RUN_HEADERS:
                    return None
                equal.append(at)
                at += 1
                headers >>= 1
                fields_left = 2 * headers
    except IndexError:
        return None
    return (equal, high, low, headers) if at == len(record) else None
