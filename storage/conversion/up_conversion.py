"""Converts message sets of old producers to the one batch of format v2 that the log stores.

What Apache Kafka checks of messages alone is checked here: sizes, checksums, also of those inside a wrapper, one format,
one wrapper. What holds for any records (keys of compacted topics, limits of timestamps, LogAppendTime, the size of the
batch) is left to `validate`, which sees the batch. Offsets count from 0, whatever the messages say: the broker assigns
them anyway, and old producers do not agree on how. The codec is already the topic's.

Rules: pure; a generator that stops every `STEP_RECORDS` records or `STEP_BYTES`, and while a compressed message comes in
pieces, so that its caller can give the loop back. It walks twice, first to check and then to convert, and keeps nothing of
the first walk: besides what came there are a chunk and a message of what was compressed in memory, and what comes out,
which `max.message.bytes` bounds.
Source: Kafka UnifiedLog.analyzeAndValidateRecords, LogValidator (convertAndAssignOffsetsNonCompressed,
buildRecordsAndAssignOffsets).
"""

from __future__ import annotations

from collections.abc import Iterator

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import Buffer
from protocol.records.any_format import any_crc_is_valid, read_any_header
from protocol.records.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader
from protocol.records.compression import Compression, CompressionStream
from protocol.records.invalid import InvalidBatch
from protocol.records.legacy import (
    MAGIC_V1,
    LegacyMessage,
    inner_messages_in_steps,
    is_legacy,
    offset_of_first,
    read_message,
)
from protocol.records.record import Record, assemble, encode_record
from storage.log.recompression import compression_level, topic_compression
from storage.log.validation import MAX_DECOMPRESSED_BYTES, batch_end

STEP_RECORDS = 256
STEP_BYTES = 64 * 1024
# Of one compressed message: each is in memory several times over, and made into a record in one step.
MAX_INNER_BYTES = 8 * 1024 * 1024
_NO_PRODUCER = (-1, -1, -1)


def needs_up_conversion(records: Buffer | None) -> bool:
    """Whether the records begin with a message of format v0 or v1."""
    return records is not None and is_legacy(records)


class UpConversion:
    """The conversion of one message set. Run `steps` to its end; `batch` is the result then, None without a whole message."""

    __slots__ = ("_config", "_partition", "_records", "batch", "records_count")

    def __init__(self, records: Buffer, config: LogConfig, partition: str) -> None:
        """`partition` is its name in messages."""
        assert needs_up_conversion(records)
        self._records = records
        self._config = config
        self._partition = partition
        self.batch: bytearray | None = None
        self.records_count = 0

    def steps(self) -> Iterator[None]:
        """Raises KafkaError: InvalidBatch, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP."""
        found = _MessageSetContent()
        for position, header in self._walk():
            self._check(position, header)
            found.add(header)
            if found.count % STEP_RECORDS == 0:
                yield
        if found.count:
            found.check(self._partition)
            yield from self._convert(found.source)

    # --- what is there ---

    def _walk(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of each whole message outside a wrapper, and of each wrapper."""
        records, position = self._records, 0
        while (end := batch_end(records, position)) is not None:
            yield position, read_any_header(records, position)
            position = end

    def _check(self, position: int, header: BatchHeader) -> None:
        if header.size_bytes > self._config.max_message_bytes:
            raise self._too_large(header.size_bytes)
        if not any_crc_is_valid(self._records, position, header):
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")

    def _too_large(self, size_bytes: int) -> KafkaError:
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {self._partition} is {size_bytes} bytes "
            f"which exceeds the maximum configured value of {self._config.max_message_bytes}.",
        )

    # --- conversion ---

    def _convert(self, source: Compression) -> Iterator[None]:
        codec = topic_compression(self._config)
        target = source if codec is None else codec
        writing = _BatchWriting(target, None if codec is None else compression_level(codec, self._config))
        unstepped_bytes = 0
        for position, header in self._walk():
            for message in self._messages_of(position, header):
                if message is None:
                    yield
                    continue
                timestamp = header.max_timestamp if header.is_log_append_time else message.header.max_timestamp
                if header.is_log_append_time:
                    self._check_stamped(timestamp)
                if timestamp < NO_TIMESTAMP:
                    raise InvalidBatch(
                        ErrorCode.INVALID_RECORD, f"Invalid negative timestamp {timestamp} in {self._partition}"
                    )
                unstepped_bytes += writing.add(timestamp, message.key, message.value)
                if writing.is_full:
                    for _ in writing.compress():
                        if writing.stream.size_bytes > self._config.max_message_bytes:
                            raise self._too_large(HEADER_BYTES + writing.stream.size_bytes)
                        yield
                if unstepped_bytes >= STEP_BYTES or writing.records_count % STEP_RECORDS == 0:
                    unstepped_bytes = 0
                    yield
        self.records_count = writing.records_count
        self.batch = writing.finish()

    def _check_stamped(self, timestamp: int) -> None:
        """Raise KafkaError when a producer claims that the broker has set the record's timestamp."""
        if self._config.message_timestamp_type == "LogAppendTime" or timestamp == NO_TIMESTAMP:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                "Invalid timestamp type: a producer should not set it to LogAppendTime.",
            )

    def _messages_of(self, position: int, header: BatchHeader) -> Iterator[LegacyMessage | None]:
        """Yield one message, or those inside a wrapper, whose checksums were not checked yet; None where the caller should
        pause."""
        if not header.is_compressed:
            yield read_message(self._records, position)
            return
        last_offset = -1
        largest_bytes = max(MAX_INNER_BYTES, self._config.max_message_bytes)
        for message in inner_messages_in_steps(self._records, position, header, MAX_DECOMPRESSED_BYTES, largest_bytes):
            if message is None:
                yield None
                continue
            if message.header.magic != header.magic:
                raise InvalidBatch(
                    ErrorCode.INVALID_RECORD,
                    f"A record's magic {message.header.magic} does not match outer magic {header.magic} "
                    f"in topic partition {self._partition}",
                )
            if not message.crc_is_valid:
                raise InvalidBatch(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"Record is corrupt (stored crc = {message.header.crc}) in topic partition {self._partition}",
                )
            last_offset = message.header.base_offset
            yield message
        if header.magic == MAGIC_V1:
            offset_of_first(header, last_offset)  # raises when there is none


class _MessageSetContent:
    """The content of a message set outside of wrappers: many messages of one format, or one wrapper."""

    __slots__ = ("count", "magics", "source")

    def __init__(self) -> None:
        self.count = 0
        self.magics: list[int] = []
        """In the order in which they came up."""
        self.source = Compression.NONE

    def add(self, header: BatchHeader) -> None:
        self.count += 1
        if header.magic not in self.magics:
            self.magics.append(header.magic)
        if header.is_compressed:
            self.source = header.compression

    def check(self, partition: str) -> None:
        """Raises InvalidBatch."""
        if self.source is not Compression.NONE and self.count > 1:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch")
        if len(self.magics) > 1:
            raise InvalidBatch(
                ErrorCode.INVALID_RECORD,
                f"Batch magic {self.magics[1]} is not the same as the first batch's magic byte {self.magics[0]} "
                f"in topic partition {partition}",
            )


class _BatchWriting:
    """A batch of format v2 that is built record by record, from offset 0 on."""

    __slots__ = ("_base_timestamp", "_codec", "_max_timestamp", "_piece", "records_count", "stream")

    def __init__(self, codec: Compression, level: int | None) -> None:
        self._codec = codec
        self._piece = bytearray()
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self.stream = CompressionStream(codec, level)
        self.records_count = 0

    def add(self, timestamp: int, key: bytes | None, value: bytes | None) -> int:
        """Add a record; returns its size before compression."""
        if not self.records_count:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        record = Record(self.records_count, timestamp, key, value)
        encoded = encode_record(record, self.records_count, timestamp - self._base_timestamp)
        self._piece += encoded
        self.records_count += 1
        return len(encoded)

    @property
    def is_full(self) -> bool:
        """Whether there is enough to `compress` before the next record."""
        return len(self._piece) >= STEP_BYTES

    def compress(self) -> Iterator[None]:
        """Compress the added records, in steps: a record may be large."""
        yield from self.stream.write_in_steps(self._piece)
        self._piece.clear()

    def finish(self) -> bytearray:
        self.stream.write(bytes(self._piece))
        return bytearray(
            assemble(
                0, -1, self._codec, self.records_count - 1, self._base_timestamp, self._max_timestamp, _NO_PRODUCER,
                self.records_count, self.stream.finish(),
            )
        )  # fmt: skip
