"""Reads the contents of a log in any format: record batches v2 and messages v0 and v1.

Logs written by old brokers, and their replicas, contain message sets of format v0 and v1 before the batches. Readers of logs
use this module; code that knows its format, such as produce, reads only batches.

    for position, header in iter_any_headers(chunk):
        for record in iter_any_records(chunk, position, header, MAX_BYTES): ...

Rules: pure. A header of a message is a `BatchHeader` too (`LegacyHeader`), without producer, epoch and control bits;
`header.magic` distinguishes them. For a compressed message set only the last offset is known; `base_offset` is the same.
Source: Kafka RecordBatch, AbstractRecords.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from protocol.primitives import Buffer
from protocol.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from protocol.records.compression import decompress_chunks
from protocol.records.legacy import (
    SMALLEST_MESSAGE_BYTES,
    is_legacy,
    iter_legacy_records,
    legacy_crc_is_valid,
    read_legacy_header,
)
from protocol.records.record import Record, iter_plain_records, iter_records, records_block

__all__ = [
    "SMALLEST_MESSAGE_BYTES",
    "any_crc_is_valid",
    "any_records_in_steps",
    "begins_compressed",
    "iter_any_headers",
    "iter_any_records",
    "read_any_header",
]


def read_any_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch or message at `position`; its records may lie beyond the buffer. Raises InvalidBatch."""
    if is_legacy(buffer, position):
        return read_legacy_header(buffer, position)
    return read_header(buffer, position)


def iter_any_headers(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of each complete batch or message in [position, end); an incomplete last one is
    skipped. Raises InvalidBatch at a header that cannot be read."""
    if end is None:
        end = len(buffer)
    while (left := end - position) > MAGIC_POSITION:
        magic = buffer[position + MAGIC_POSITION]
        if left < (HEADER_BYTES if magic >= MAGIC_V2 else SMALLEST_MESSAGE_BYTES + 8 * magic):
            return
        header = read_header(buffer, position) if magic == MAGIC_V2 else read_any_header(buffer, position)
        following = position + header.size_bytes
        if following > end:
            return
        yield position, header
        position = following


def begins_compressed(buffer: Buffer) -> bool:
    """Return whether the first batch or message, which may be incomplete, is compressed according to its header."""
    if len(buffer) <= MAGIC_POSITION:
        return False
    at = ATTRIBUTES_POSITION if buffer[MAGIC_POSITION] >= MAGIC_V2 else MAGIC_POSITION
    low_byte = bytes(buffer[at + 1 : at + 2])
    return bool(low_byte) and bool(low_byte[0] & COMPRESSION_MASK)


def any_crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the CRC is correct; False also when the batch or message goes beyond the buffer."""
    if header.magic < MAGIC_V2:
        return legacy_crc_is_valid(buffer, position, header)
    return crc_is_valid(buffer, position, header)


def iter_any_records(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int
) -> Iterator[Record]:
    """Iterate over the records of one batch, message or wrapper, in order, as copies. Raises InvalidBatch."""
    if header.magic < MAGIC_V2:
        return iter_legacy_records(buffer, position, header, max_decompressed_bytes)
    return iter_records(buffer, position, header, max_decompressed_bytes)


def any_records_in_steps(
    buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int
) -> Generator[None, None, Iterator[Record]]:
    """Like `iter_any_records`, without record headers, of which one record may have millions. Yields None after each chunk
    that is decompressed, so that the caller can interrupt a large batch. Raises InvalidBatch."""
    if header.magic < MAGIC_V2:
        return iter_any_records(buffer, position, header, max_decompressed_bytes)
    block = records_block(buffer, position, header)
    if not header.is_compressed:
        return iter_plain_records(bytes(block), header, with_headers=False)
    chunks: list[Buffer] = []
    for chunk in decompress_chunks(header.compression, block, max_decompressed_bytes):
        chunks.append(chunk)
        yield
    return iter_plain_records(b"".join(chunks), header, with_headers=False)
