"""Converts records of a log to message sets of format v0 or v1, for clients older than record batches.

These formats have no headers, producers and control batches, which are dropped. Of a batch that is not compressed, the records
below the fetch offset go too; a compressed one stays together, as its client expects. They have no Zstandard either: the result
ends before such a batch, or is UNSUPPORTED_COMPRESSION_TYPE if it comes first.

The result has the size of the bytes read, or of its first batch when that is larger: excess is truncated, and missing bytes are
filled with the beginning of a message that is larger than the result. Old clients expect an incomplete message at the end; one
that finds nothing else requests more bytes. When not even one batch was read, the result is empty.

Rules: pure; a generator that stops every `STEP_RECORDS` records, every chunk and every piece that was compressed, so that its
caller can yield to the loop. Besides the bytes read and the result, one batch is in memory, decompressed.
Source: KIP-283; Kafka RecordsUtil.downConvert, LazyDownConversionRecords, LazyDownConversionRecordsSend.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import Buffer
from protocol.records.any_format import any_records_in_steps, iter_any_headers
from protocol.records.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, BatchHeader
from protocol.records.compression import Compression
from protocol.records.legacy import MessageSetEncoding
from storage.segments.stored_batches import MAX_LOADED_BYTES

STEP_RECORDS = 256
_NO_OFFSET = -1


class DownConversion:
    """The conversion of one partition's records. Run `steps` to its end; `records` is the result then."""

    __slots__ = ("_fetch_offset", "_magic", "_read", "_size_bytes", "records", "records_count")

    def __init__(self, read: Buffer, magic: int, fetch_offset: int) -> None:
        """Prepare to convert `read`, the bytes from the log; its last batch may be incomplete."""
        self._read = read
        self._magic = magic
        self._fetch_offset = fetch_offset
        self._size_bytes = len(read)
        self.records: bytes = b""
        self.records_count = 0
        """Of those that had to be converted."""

    def steps(self) -> Iterator[None]:
        """Raises KafkaError when nothing at all can be converted: UNSUPPORTED_COMPRESSION_TYPE, InvalidBatch."""
        parts: list[bytes] = []
        converted_bytes = 0
        is_anything_whole = False
        try:
            for position, header in iter_any_headers(self._read):
                is_anything_whole = True
                part = yield from self._part(position, header)
                if not part:
                    continue
                if not parts:
                    self._size_bytes = max(self._size_bytes, len(part))
                parts.append(part)
                converted_bytes += len(part)
                if converted_bytes >= self._size_bytes:
                    break
        except KafkaError:
            if not parts:
                raise  # otherwise the client reads what precedes it, and gets the error with its next fetch
        if not parts:
            self._size_bytes = LENGTH_OVERHEAD_BYTES if is_anything_whole else 0
        parts.append(_beginning_of_a_message(self._size_bytes - converted_bytes))
        self.records = b"".join(parts)[: self._size_bytes]

    def _part(self, position: int, header: BatchHeader) -> Generator[None, None, bytes]:
        """Convert one batch, or message."""
        if header.is_control:
            return b""
        codec = header.compression
        if codec is Compression.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                "Down-conversion of zstandard-compressed batches is not supported",
            )
        if header.magic <= self._magic:
            return bytes(self._read[position : position + header.size_bytes])
        append_time_ms = header.max_timestamp if header.is_log_append_time else None
        encoding = MessageSetEncoding(self._magic, codec, None, append_time_ms)
        first_offset = 0 if codec else self._fetch_offset
        for record in (yield from any_records_in_steps(self._read, position, header, MAX_LOADED_BYTES)):
            if record.offset < first_offset:
                continue
            if encoding.add(record):
                yield from encoding.compress()
            if encoding.records_count % STEP_RECORDS == 0:
                yield
        self.records_count += encoding.records_count
        return encoding.finish()


def _beginning_of_a_message(size_bytes: int) -> bytes:
    """Return the first bytes of a message that is larger than them."""
    if size_bytes <= 0:
        return b""
    length = max(size_bytes + 1, HEADER_BYTES)
    prefix = _NO_OFFSET.to_bytes(8, "big", signed=True) + length.to_bytes(4, "big")
    return prefix.ljust(size_bytes, b"\x00")
