"""Records of a log for clients of before record batches: as message sets of format v0 or v1.

What has no place there goes: headers, producers, and control batches as a whole. Of a batch that is not compressed, the
records below the fetch offset go too; a compressed one stays together, as its client expects. Zstandard has no place
there either: the answer ends before such a batch, or is UNSUPPORTED_COMPRESSION_TYPE if it comes first.

The answer has the size of what was read, or of its first batch when that is larger: what is too much is cut off, and what
is missing is filled with the beginning of a message that is larger than the answer. Old clients expect to find a cut
message at the end; one that finds nothing else asks for more bytes. Where not even one batch was read, nothing comes.

Rules: pure; a generator that stops every `STEP_RECORDS` records, every chunk and every piece that was compressed, so that its
caller can give the loop back. Besides what was read and the answer, one batch is in memory, decompressed.
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
    """One partition's records on their way. Run `steps` to its end; `records` is the answer then."""

    __slots__ = ("_fetch_offset", "_magic", "_read", "_size_bytes", "records", "records_count")

    def __init__(self, read: Buffer, magic: int, fetch_offset: int) -> None:
        """`read` is what the log answered; its last batch may be cut."""
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
                raise  # else the client reads what is before, and hears of it when it asks again
        if not parts:
            self._size_bytes = LENGTH_OVERHEAD_BYTES if is_anything_whole else 0
        parts.append(_beginning_of_a_message(self._size_bytes - converted_bytes))
        self.records = b"".join(parts)[: self._size_bytes]

    def _part(self, position: int, header: BatchHeader) -> Generator[None, None, bytes]:
        """What stands for one batch, or message, in the answer."""
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
    """The first bytes of a message that goes beyond them."""
    if size_bytes <= 0:
        return b""
    length = max(size_bytes + 1, HEADER_BYTES)
    prefix = _NO_OFFSET.to_bytes(8, "big", signed=True) + length.to_bytes(4, "big")
    return prefix.ljust(size_bytes, b"\x00")
