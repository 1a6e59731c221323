"""The header of a record batch v2, as a view of the batch's bytes, and the fields that are patched in place.

    position 0  base_offset int64         21  attributes int16          43  producer_id int64
             8  batch_length int32        23  last_offset_delta int32   51  producer_epoch int16
            12  partition_leader_epoch    27  base_timestamp int64      53  base_sequence int32
            16  magic int8                35  max_timestamp int64       57  records_count int32
            17  crc uint32, CRC-32C from position 21 to the end         61  records, as a whole compressed or not

Rules: pure; the bytes are never copied. Base offset and leader epoch lie before the CRC's range, so that a broker
assigns them without touching the records.
Invariants: `last_offset` is `base_offset + last_offset_delta`, whatever `records_count` says: compaction leaves gaps,
and batches without records.
Source: KIP-98, KIP-534 (delete horizon); Kafka DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from protocol.primitives import Buffer
from protocol.records.compression import Compression
from protocol.records.invalid import InvalidBatch, unknown_magic

__all__ = [
    "HEADER_BYTES",
    "LENGTH_OVERHEAD_BYTES",
    "MAGIC_V2",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "InvalidBatch",
    "advance_sequence",
    "crc_is_valid",
    "crc_of",
    "holds_transaction",
    "iter_headers",
    "magic_at",
    "patch",
    "patch_log_append_time",
    "patch_timestamp",
    "read_header",
    "rewind_sequence",
]

LENGTH_OVERHEAD_BYTES = 12
"""The size of base offset and length, which `batch_length` does not include."""
HEADER_BYTES = 61
HEADER = Struct(">qiibIhiqqqhii")
assert HEADER.size == HEADER_BYTES
_unpack_header = HEADER.unpack_from
_unpack_producer = Struct(">43xqhi").unpack_from
MAGIC_V2 = 2
MAGIC_POSITION = 16
MIN_LEGACY_LENGTH = 14  # of a v0 message, the smallest of any format

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

_LENGTH = Struct(">i")
_pack_base_offset = Struct(">q").pack_into
_pack_leader_epoch = Struct(">i").pack_into
_LEADER_EPOCH_POSITION = 12
_CRC = Struct(">I")
_CRC_POSITION = 17
_ATTRIBUTES = Struct(">h")
ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_ATTRIBUTES = 0x7F

_SEQUENCES = 1 << 31


class BatchHeader:
    """The 61 bytes at a position, read once. It does not reflect later patches, except those made through it."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "records_count",
        "size_bytes",
    )

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """The timestamp to which the records' timestamp deltas are relative; with a delete horizon, that horizon."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    size_bytes: int
    """The size of the whole batch, header included."""

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Decode without checks; use `read_header`, which checks. Raises struct.error when fewer than 61 bytes are left."""
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        ) = _unpack_header(buffer, position)
        self.size_bytes = LENGTH_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """The codec. Raises InvalidBatch when it is none of the five."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}")
        return Compression(codec)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; NO_SEQUENCE for a batch without one."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)

    def __repr__(self) -> str:
        return f"<BatchHeader {self.base_offset}..{self.last_offset} {self.size_bytes} bytes>"


def advance_sequence(sequence: int, count: int) -> int:
    """Return the sequence number `count` later; sequence numbers wrap from 2**31 - 1 to 0."""
    return (sequence + count) % _SEQUENCES


def rewind_sequence(sequence: int, count: int) -> int:
    return (sequence - count) % _SEQUENCES


def magic_at(buffer: Buffer, position: int = 0) -> int:
    """Return the format of the batch or message at `position`, -1 when too few bytes are left."""
    at = position + MAGIC_POSITION
    return buffer[at] if at < len(buffer) else -1


def holds_transaction(buffer: Buffer) -> bool:
    """Return whether `buffer` begins with a batch of format v2 that belongs to a transaction; reads two bytes of it."""
    return (
        len(buffer) >= HEADER_BYTES
        and buffer[MAGIC_POSITION] == MAGIC_V2
        and bool(buffer[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT)
    )


def producer_of(buffer: Buffer) -> tuple[int, int, int]:
    """Return producer id, producer epoch and base sequence of the batch at the start of `buffer`, which has at least
    `HEADER_BYTES`; nothing else is read."""
    return _unpack_producer(buffer)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`; the records may lie beyond the buffer's end.

    Raises InvalidBatch: fewer than 61 bytes, a format other than v2, or an impossible length.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise _unreadable(buffer, position)
    header = BatchHeader(buffer, position)
    if header.magic != MAGIC_V2 or header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
        raise _unreadable(buffer, position)
    return header


def _unreadable(buffer: Buffer, position: int) -> InvalidBatch:
    magic = magic_at(buffer, position)
    if magic in (0, 1):
        return InvalidBatch(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"A message of format v{magic} where a batch belongs."
        )
    if magic not in (-1, MAGIC_V2):
        return unknown_magic(magic)
    if len(buffer) - position < HEADER_BYTES:
        left = max(len(buffer) - position, 0)
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{left} bytes are too few for the header of a batch.")
    length = _LENGTH.unpack_from(buffer, position + 8)[0]
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than that of an empty batch.")


def iter_headers(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of each complete batch in [position, end); an incomplete last one is skipped.

    Raises InvalidBatch at a header that cannot be read.
    """
    if end is None:
        end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        following = position + header.size_bytes
        if following > end:
            return
        yield position, header
        position = following
    if end - position > MAGIC_POSITION and magic_at(buffer, position) != MAGIC_V2:
        raise _unreadable(buffer, position)


# --- checksum and patches ---


def crc_of(buffer: Buffer, position: int, size_bytes: int) -> int:
    """Compute the CRC-32C for the header. The bytes are not copied."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size_bytes])


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the CRC is correct; False also when the batch goes beyond the buffer."""
    size_bytes = header.size_bytes
    if len(buffer) - position < size_bytes:
        return False
    return crc_of(buffer, position, size_bytes) == header.crc


def patch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the fields that the leader assigns. The CRC stays valid. Headers that were read before do not change."""
    _pack_base_offset(buffer, position, base_offset)
    _pack_leader_epoch(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def patch_log_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Set the broker's time as the timestamp of all records of the batch, and update the CRC."""
    header = read_header(buffer, position)
    patch_timestamp(buffer, position, header, is_log_append_time=True, max_timestamp=timestamp_ms)


def patch_timestamp(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, *, is_log_append_time: bool, max_timestamp: int
) -> None:
    """Set timestamp type and max timestamp, in the bytes and in `header`, unless they are set already. This clears unknown
    attributes, as in Apache Kafka."""
    if header.is_log_append_time == is_log_append_time and header.max_timestamp == max_timestamp:
        return
    kept = header.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME_BIT
    header.attributes = kept | (LOG_APPEND_TIME_BIT if is_log_append_time else 0)
    header.max_timestamp = max_timestamp
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, header.attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    header.crc = crc_of(buffer, position, header.size_bytes)
    _CRC.pack_into(buffer, position + _CRC_POSITION, header.crc)
