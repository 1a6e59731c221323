"""Reads and writes messages of the formats before record batches: v0 and v1.

    position 0  offset int64          16  magic int8          then: key length int32, key,
             8  length int32          17  attributes int8           value length int32, value
            12  crc uint32, CRC-32    18  timestamp int64,
                from 16 to the end        of v1 alone

A message set is a sequence of messages. A compressed one is a single message, the wrapper, whose value is a set: its offset
is that of the last message inside. Inside, v0 has absolute offsets; v1 has offsets relative to each other, such that the last
message has the wrapper's offset. Producers count from 0 in both, and some always set the wrapper's offset to 0.

Rules: pure. A negative length of a key or value means null. An incomplete message at the end of a set is ignored: old brokers
and clients truncate sets at size limits.
Invariant: a header has no information about the messages inside a wrapper, so `base_offset` is that of the last one.
Source: KIP-31 (relative offsets), KIP-32 (timestamps); Kafka LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

from protocol.errors import ErrorCode
from protocol.primitives import Buffer
from protocol.records.batch import (
    COMPRESSION_MASK,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_POSITION,
    MIN_LEGACY_LENGTH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    magic_at,
)
from protocol.records.compression import Compression, CompressionStream, DecompressionTooLarge, decompress_chunks
from protocol.records.invalid import InvalidBatch
from protocol.records.lz4_header import with_header_checksum
from protocol.records.record import Record

MAGIC_V0 = 0
MAGIC_V1 = 1
SMALLEST_MESSAGE_BYTES = LENGTH_OVERHEAD_BYTES + MIN_LEGACY_LENGTH
_NO_LEADER_EPOCH = -1

_HEADER = (Struct(">qiIbB"), Struct(">qiIbBq"))  # of v0, of v1
_OVERHEAD_BYTES = (MIN_LEGACY_LENGTH, MIN_LEGACY_LENGTH + 8)  # of a message without key and value, after its length
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_CRC_POSITION = 12
_NULL = _LENGTH.pack(-1)
_ENCODING_PIECE_BYTES = 64 * 1024
# The size of decompressed data that takes one or two milliseconds.
_STEP_BYTES = 512 * 1024
_CHUNK_COST_BYTES = 8 * 1024  # the minimum cost of a chunk, in bytes


class LegacyHeader(BatchHeader):
    """The header of a message in the form of a batch's header: no producer, no leader epoch, one offset."""

    __slots__ = ()

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Decode without checks; use `read_legacy_header`, which checks."""
        magic = buffer[position + MAGIC_POSITION]
        fields = _HEADER[magic].unpack_from(buffer, position)
        self.base_offset, self.batch_length, self.crc, self.magic, self.attributes = fields[:5]
        self.attributes &= COMPRESSION_MASK | LOG_APPEND_TIME_BIT if magic else COMPRESSION_MASK
        self.base_timestamp = self.max_timestamp = fields[5] if magic else NO_TIMESTAMP
        self.partition_leader_epoch = _NO_LEADER_EPOCH
        self.producer_id, self.producer_epoch, self.base_sequence = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
        self.last_offset_delta, self.records_count = 0, 1
        self.size_bytes = LENGTH_OVERHEAD_BYTES + self.batch_length


def is_legacy(buffer: Buffer, position: int = 0) -> bool:
    """Return whether the magic at `position` is that of format v0 or v1."""
    return 0 <= magic_at(buffer, position) <= MAGIC_V1


def read_legacy_header(buffer: Buffer, position: int = 0) -> LegacyHeader:
    """Return the header of the message at `position`, which must be legacy; its value may lie beyond the buffer's end.

    Raises InvalidBatch: fewer bytes than a header has, or an impossible length.
    """
    left, overhead_bytes = len(buffer) - position, _OVERHEAD_BYTES[magic_at(buffer, position)]
    if left < LENGTH_OVERHEAD_BYTES + overhead_bytes:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{left} bytes are too few for a message.")
    header = LegacyHeader(buffer, position)
    if header.batch_length < overhead_bytes:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {header.batch_length} is less than the minimum record overhead ({overhead_bytes})",
        )
    return header


def legacy_crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the CRC is correct; False also when the message goes beyond the buffer."""
    end = position + header.size_bytes
    return len(buffer) >= end and zlib.crc32(memoryview(buffer)[position + MAGIC_POSITION : end]) == header.crc


# --- reading ---


@dataclass(slots=True)
class LegacyMessage:
    """One message as stored: inside a wrapper of v1 the offset is relative."""

    header: LegacyHeader
    key: bytes | None
    value: bytes | None
    crc_is_valid: bool


def iter_legacy_records(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int
) -> Iterator[Record]:
    """Iterate over the records of one message or wrapper, in order, as copies with absolute offsets. Raises InvalidBatch."""
    if not header.is_compressed:
        message = read_message(buffer, position)
        yield Record(message.header.base_offset, message.header.max_timestamp, message.key, message.value)
        return
    first_offset = 0
    if header.magic == MAGIC_V1 and header.base_offset:
        last_offset = -1
        for message in inner_messages(buffer, position, header, max_decompressed_bytes):
            last_offset = message.header.base_offset
        first_offset = offset_of_first(header, last_offset)
    append_time = header.max_timestamp if header.is_log_append_time else None
    for message in inner_messages(buffer, position, header, max_decompressed_bytes):
        inner = message.header
        timestamp = inner.max_timestamp if append_time is None or inner.magic == MAGIC_V0 else append_time
        yield Record(first_offset + inner.base_offset, timestamp, message.key, message.value)


def offset_of_first(wrapper: BatchHeader, last_offset: int) -> int:
    """Return the number to add to the relative offsets inside a wrapper of v1, the last of which is `last_offset`.

    Raises InvalidBatch when the wrapper's offset is smaller, except for 0, which some producers always send.
    """
    if wrapper.base_offset == 0:
        return 0
    if wrapper.base_offset < last_offset:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            "Found invalid wrapper offset in compressed v1 message set, "
            f"wrapper offset '{wrapper.base_offset}' is less than the last inner message offset '{last_offset}' "
            "and it is not zero.",
        )
    return wrapper.base_offset - last_offset


def read_message(buffer: Buffer, position: int = 0) -> LegacyMessage:
    """Decode the message at `position`. Raises InvalidBatch."""
    header = read_legacy_header(buffer, position)
    end = position + header.size_bytes
    if end > len(buffer):
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"The message says {header.size_bytes} bytes; {len(buffer) - position} are there.",
        )
    at = position + _HEADER[header.magic].size
    key, at = _read_bytes(buffer, at, end)
    value, _ = _read_bytes(buffer, at, end)
    return LegacyMessage(header, key, value, legacy_crc_is_valid(buffer, position, header))


def _read_bytes(buffer: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    if at + _LENGTH.size > end:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "A message ends inside its key.")
    length: int = _LENGTH.unpack_from(buffer, at)[0]
    at += _LENGTH.size
    if length < 0:
        return None, at
    if at + length > end:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A message ends inside its key or value of {length} bytes.")
    return bytes(buffer[at : at + length]), at + length


def inner_messages(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    max_decompressed_bytes: int,
    max_message_bytes: int | None = None,
) -> Iterator[LegacyMessage]:
    """Iterate over the messages inside the wrapper at `position`; only a chunk and a message are in memory, and the size of
    the message can be limited.

    Raises InvalidBatch: an invalid codec or value of the wrapper, a nested compressed message, no message.
    """
    for message in inner_messages_in_steps(buffer, position, header, max_decompressed_bytes, max_message_bytes):
        if message is not None:
            yield message


def inner_messages_in_steps(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    max_decompressed_bytes: int,
    max_message_bytes: int | None = None,
) -> Iterator[LegacyMessage | None]:
    """Like `inner_messages`, but yields None after each `_STEP_BYTES` of decompressed data, so that the caller can interrupt
    the work even within a message."""
    codec = header.compression
    if codec is Compression.ZSTD:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"Invalid wrapper compressionType found in legacy deep record iterator {header.magic}",
        )
    value = read_message(buffer, position).value
    if value is None:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"Found invalid compressed record set with null value (magic = {header.magic})",
        )
    if codec is Compression.LZ4 and header.magic == MAGIC_V0:
        value = with_header_checksum(value, of_magic=False)  # accept either checksum, as it is not verified
    is_empty = True
    if max_message_bytes is None:
        max_message_bytes = max_decompressed_bytes
    for message in _messages(decompress_chunks(codec, value, max_decompressed_bytes), max_message_bytes):
        if message is None:
            yield None
            continue
        is_empty = False
        if message.header.is_compressed:
            raise InvalidBatch(
                ErrorCode.INVALID_RECORD,
                "Compressed outer record should not have an inner record with compression attribute set",
            )
        yield message
    if is_empty:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "Found invalid compressed record set with no inner records")


def _messages(chunks: Iterable[Buffer], max_message_bytes: int) -> Iterator[LegacyMessage | None]:
    """Iterate over the complete messages of a set that arrives in chunks; yields None after every `_STEP_BYTES` of it."""
    pieces: list[Buffer] = []
    gathered_bytes = 0  # in all pieces
    missing = 0  # of a message that has begun, whose pieces are joined once
    unstepped_bytes = 0
    for chunk in chunks:
        chunk_bytes = len(chunk)
        unstepped_bytes += chunk_bytes + _CHUNK_COST_BYTES
        if unstepped_bytes >= _STEP_BYTES:
            unstepped_bytes = 0
            yield None
        pieces.append(chunk)
        gathered_bytes += chunk_bytes
        missing -= chunk_bytes
        if missing > 0:
            if gathered_bytes > max_message_bytes:
                raise DecompressionTooLarge(max_message_bytes)
            continue
        block = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        at = 0
        while len(block) - at >= SMALLEST_MESSAGE_BYTES:
            size_bytes = _size_of_inner(block, at)
            missing = size_bytes - (len(block) - at)
            if missing > 0:
                break
            yield read_message(block, at)
            at += size_bytes
        pieces = [memoryview(block)[at:]]
        gathered_bytes = len(block) - at


def _size_of_inner(block: Buffer, at: int) -> int:
    """Return the size in the header of the message inside a wrapper. Raises InvalidBatch."""
    magic = magic_at(block, at)
    if magic > MAGIC_V1:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A message of magic {magic} inside a message set.")
    length: int = _LENGTH.unpack_from(block, at + 8)[0]
    if length < _OVERHEAD_BYTES[magic]:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_OVERHEAD_BYTES[magic]})",
        )
    return LENGTH_OVERHEAD_BYTES + length


# --- building ---


def encode_message(
    magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, *, attributes: int = 0
) -> bytes:
    """Encode one message. v0 has no `timestamp`."""
    body = b"".join((
        bytes((magic, attributes)),
        timestamp.to_bytes(8, "big", signed=True) if magic else b"",
        *((_NULL,) if key is None else (_LENGTH.pack(len(key)), key)),
        *((_NULL,) if value is None else (_LENGTH.pack(len(value)), value)),
    ))  # fmt: skip
    return b"".join((
        offset.to_bytes(8, "big", signed=True), _LENGTH.pack(_CRC.size + len(body)), _CRC.pack(zlib.crc32(body)), body
    ))  # fmt: skip


def encode_message_set(
    records: Iterable[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Encode messages with the records' own offsets, or a wrapper of them; b"" without records. Headers are dropped."""
    encoding = MessageSetEncoding(magic, compression, level, log_append_time_ms)
    for record in records:
        if encoding.add(record):
            for _ in encoding.compress():
                pass
    return encoding.finish()


class MessageSetEncoding:
    """Encodes a message set record by record. `records_count` is the number of records added."""

    __slots__ = (
        "_append_time_ms",
        "_attributes",
        "_codec",
        "_first_offset",
        "_last_offset",
        "_magic",
        "_max_timestamp",
        "_piece",
        "_stream",
        "records_count",
    )

    def __init__(self, magic: int, codec: Compression, level: int | None, log_append_time_ms: int | None) -> None:
        self._magic = magic
        self._codec = codec
        self._append_time_ms = log_append_time_ms
        self._attributes = LOG_APPEND_TIME_BIT if magic and log_append_time_ms is not None else 0
        self._stream = CompressionStream(codec, level)
        self._piece = bytearray()
        self._first_offset = self._last_offset = 0
        self._max_timestamp = NO_TIMESTAMP
        self.records_count = 0

    def add(self, record: Record) -> bool:
        """Add a record, whose offset must be above the previous one; return whether to call `compress` before the next."""
        if not self.records_count:
            self._first_offset = record.offset
        self.records_count += 1
        self._last_offset = offset = record.offset
        if self._magic and self._codec:
            offset -= self._first_offset
        timestamp = record.timestamp if self._append_time_ms is None else self._append_time_ms
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._piece += encode_message(
            self._magic, offset, timestamp, record.key, record.value, attributes=self._attributes
        )
        return len(self._piece) >= _ENCODING_PIECE_BYTES

    def compress(self) -> Iterator[None]:
        """Compress the records added so far, in steps, because a record may be large."""
        yield from self._stream.write_in_steps(self._piece)
        self._piece.clear()

    def finish(self) -> bytes:
        """Return the encoded set. The encoding cannot be used afterwards."""
        self._stream.write(bytes(self._piece))
        block = self._stream.finish()
        if not self._codec or not self.records_count:
            return block if self.records_count else b""
        if self._codec is Compression.LZ4 and self._magic == MAGIC_V0:
            block = with_header_checksum(block, of_magic=True)
        attributes = self._attributes | self._codec
        return encode_message(self._magic, self._last_offset, self._max_timestamp, None, block, attributes=attributes)
