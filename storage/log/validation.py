"""Validates records before they are appended, and applies the topic's settings to them. Pure.

A client's records: one batch of format v2 (`up_conversion` has made it of what old clients send), not larger than
`max.message.bytes`, with a right CRC, a header that agrees with itself, no control batch, and records that are what the
header says. How far records are looked into is `barnabas.produce.validation`; timestamp limits and compacted topics need
their fields in any case. Long work is not done on the event loop (`LongValidation`). A coordinator's
batches are this broker's own, a replica's were checked by the leader: only damage by transport or disk is checked.

Rules: pure; works in the caller's buffer, and copies it only if that cannot be written to. Base offset and leader epoch
are not assigned here. Raises KafkaError; the buffer may be patched then, and is of no further use.
Invariant: a refusal names Kafka's error code, and the records it is about where Kafka names them.
Source: Kafka ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from config.topic import LogConfig
from protocol.crc32c import crc32c
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import Buffer
from protocol.records.any_format import any_crc_is_valid, iter_any_headers
from protocol.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_POSITION,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    InvalidBatch,
    crc_is_valid,
    magic_at,
    patch_timestamp,
    read_header,
)
from protocol.records.compression import Compression, DecompressionTooLarge, TooManySteps
from protocol.records.fields import walk_fields
from protocol.records.invalid import Fault, unknown_magic
from protocol.records.record import recompress
from protocol.records.structure import check_structure
from storage.log.recompression import (
    INLINE_RECOMPRESSED_BYTES,
    compression_level,
    inline_plain_bytes,
    target_compression,
)
from storage.log.record_errors import RecordErrors, RecordsTooLarge

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""Of one produced batch. One that is larger is MESSAGE_TOO_LARGE, which makes producers split it."""
FIRST_PRODUCE_OF_V2 = 3
FIRST_PRODUCE_OF_ZSTD = 7
# What the event loop may be kept for: some tens of milliseconds.
INLINE_DECOMPRESSED_BYTES = 4 * 1024 * 1024
INLINE_RECORDS = 20_000
INLINE_STEPS = 50_000  # record headers, or pieces of decompressed data (`PIECE_STEPS`)
# What a batch in another codec has at most while nobody knows yet whether it fits `max.message.bytes`.
_LARGEST_RECOMPRESSED_BYTES = 8 * 1024 * 1024


class AppendOrigin(Enum):
    """The kind of sender whose records are appended."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICA = "replica"


class ValidationLevel(Enum):
    """`barnabas.produce.validation`: the batch header, the bounds of its records, or every field of them."""

    HEADER = "header"
    STRUCTURE = "structure"
    FULL = "full"


class RequestRejected(InvalidBatch):
    """Raised for records that the version of their request does not allow, before any log is involved."""


class LongValidation(Exception):
    """Raised when the records take too long for the event loop. Nothing was changed."""


@dataclass(slots=True)
class ValidatedRecords:
    """Records that may be appended. `headers` describe `records` as they are now, batch by batch."""

    records: bytearray | memoryview
    """Writable and complete batches: an incomplete one at the end is dropped, as in Kafka."""
    headers: list[BatchHeader]
    """One for a client or coordinator; none when there is nothing to append (Produce below v3 may send that)."""
    log_append_time_ms: int
    """-1 unless the topic stamps records itself."""

    def stamp_again(self, now_ms: int) -> None:
        """Set a new log append time, because records with a later one may have been appended since the validation."""
        if self.log_append_time_ms == NO_TIMESTAMP:
            return
        self.log_append_time_ms = now_ms
        patch_timestamp(self.records, 0, self.headers[0], is_log_append_time=True, max_timestamp=now_ms)


def validate(
    records: Buffer,
    *,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    produce_version: int | None = None,
    level: ValidationLevel = ValidationLevel.STRUCTURE,
    partition: str = "the partition",
    is_inline: bool = False,
) -> ValidatedRecords:
    """Check `records` and bring them into the form that the topic keeps. `partition` is its name in messages.

    Raises KafkaError: InvalidBatch, RecordsRejected, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE; and LongValidation for a
    client's records if it `is_inline`: on the event loop.
    """
    if origin is AppendOrigin.REPLICA:
        return _validate_replica(records)
    if origin is AppendOrigin.CLIENT:
        header = only_batch(records, produce_version)
        if header is None:
            return ValidatedRecords(bytearray(), [], -1)
        _check_client_batch(records, header, config, partition)
    else:
        header = read_header(records)
        _check_size(header, config, partition)
    whole = _writable(records, header.size_bytes)
    is_log_append_time = config.message_timestamp_type == "LogAppendTime"
    if origin is AppendOrigin.CLIENT:
        if is_inline and _takes_long(header, config):
            raise LongValidation
        try:
            _check_records(
                whole, header, config, now_ms, level,
                is_inline=is_inline, is_log_append_time=is_log_append_time, partition=partition,
            )  # fmt: skip
        except (DecompressionTooLarge, TooManySteps):
            if is_inline:
                raise LongValidation from None
            raise
    max_timestamp = now_ms if is_log_append_time else header.max_timestamp
    patch_timestamp(whole, 0, header, is_log_append_time=is_log_append_time, max_timestamp=max_timestamp)
    target = target_compression(header, config)
    if target is not None:
        largest_bytes = max(config.max_message_bytes, _LARGEST_RECOMPRESSED_BYTES)
        whole = bytearray(
            recompress(
                whole, 0, header, target, compression_level(target, config), MAX_DECOMPRESSED_BYTES, largest_bytes
            )
        )
        header = read_header(whole)
        _check_size(header, config, partition)
    if header.size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch size in the append to {partition} is {header.size_bytes} bytes, "
            f"more than a segment may have: {config.segment_bytes}.",
        )
    return ValidatedRecords(whole, [header], now_ms if is_log_append_time else -1)


class PlainBatchRules:
    """The values that `plain_batch` needs of a topic's settings, computed once."""

    __slots__ = ("checks_structure", "config", "largest_bytes", "level")

    def __init__(self, config: LogConfig, level: ValidationLevel) -> None:
        self.config = config
        self.level = level
        self.checks_structure = level is ValidationLevel.STRUCTURE
        takes_as_is = (
            level is not ValidationLevel.FULL
            and not config.is_compacted
            and config.message_timestamp_type != "LogAppendTime"
            and config.compression_type == "producer"
            and _timestamp_limits(config, 0) is None
        )
        self.largest_bytes = min(config.max_message_bytes, config.segment_bytes) if takes_as_is else 0
        """0: in such a topic no batch is plain."""


def plain_batch(records: Buffer, rules: PlainBatchRules) -> BatchHeader | None:
    """Return the header of a client's batch that `validate` would accept unchanged; None when only `validate` can decide.

    This is the fast path for nearly every produced batch; anything unusual takes the slow path. Raises InvalidBatch as
    `validate` does.
    """
    size_bytes = len(records)
    if not HEADER_BYTES <= size_bytes <= rules.largest_bytes:
        return None
    header = BatchHeader(records)
    if (
        header.size_bytes != size_bytes
        or header.magic != MAGIC_V2
        or header.base_offset
        or header.attributes & _NOT_PLAIN
        or header.records_count <= 0
        or header.records_count != header.last_offset_delta + 1
        or (header.base_sequence < 0 <= header.producer_id)
    ):
        return None
    view = records if isinstance(records, memoryview) else memoryview(records)
    if view.readonly or crc32c(view[ATTRIBUTES_POSITION:]) != header.crc:
        return None
    if rules.checks_structure:
        try:
            check_structure(records, 0, header, INLINE_DECOMPRESSED_BYTES, INLINE_STEPS)
        except (DecompressionTooLarge, TooManySteps):
            return None
    return header


# Zstandard depends on the request's version; stamped records and control batches are refused.
_NOT_PLAIN = Compression.ZSTD | LOG_APPEND_TIME_BIT | CONTROL_BIT
assert not _NOT_PLAIN & (Compression.GZIP | Compression.SNAPPY | Compression.LZ4)


def _writable(records: Buffer, size_bytes: int) -> bytearray | memoryview:
    view = memoryview(records)[:size_bytes]
    return bytearray(view) if view.readonly else view


# --- replicas ---


def _validate_replica(records: Buffer) -> ValidatedRecords:
    """Check batches and old messages of a leader: complete, undamaged, offsets rising."""
    headers: list[BatchHeader] = []
    end, next_offset = 0, -1
    for position, header in iter_any_headers(records):
        if not any_crc_is_valid(records, position, header):
            raise _corrupt(header)
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise InvalidBatch(
                ErrorCode.CORRUPT_MESSAGE,
                f"Offset {header.base_offset} comes after {next_offset - 1} in copied records.",
            )
        headers.append(header)
        end, next_offset = position + header.size_bytes, header.next_offset
    return ValidatedRecords(_writable(records, end), headers, -1)


# --- clients ---


def only_batch(records: Buffer, produce_version: int | None) -> BatchHeader | None:
    """Return the header of the one batch that a client may send; None for an old client that sends nothing.

    Like Kafka it first determines what was sent: an incomplete batch does not count.
    """
    if len(records) >= HEADER_BYTES:  # what nearly every request holds, and nothing below would object to
        header = BatchHeader(records)
        if (
            header.magic == MAGIC_V2
            and LENGTH_OVERHEAD_BYTES + header.batch_length == len(records)
            and header.attributes & COMPRESSION_MASK != Compression.ZSTD
        ):
            return header
    is_old_client = produce_version is not None and produce_version < FIRST_PRODUCE_OF_V2
    end = batch_end(records, 0)
    if end is None:
        if is_old_client:
            return None
        raise RequestRejected(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {produce_version} must have at least one record batch per partition",
        )
    if magic_at(records) != MAGIC_V2 and not is_old_client:
        raise RequestRejected(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {produce_version} are only allowed to contain "
            "record batches with magic version 2",
        )
    header = read_header(records)
    if (
        header.attributes & COMPRESSION_MASK == Compression.ZSTD
        and produce_version is not None
        and FIRST_PRODUCE_OF_V2 <= produce_version < FIRST_PRODUCE_OF_ZSTD
    ):
        raise RequestRejected(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {produce_version} are not allowed to use ZStandard compression",
        )
    if batch_end(records, end) is not None:
        raise RequestRejected(ErrorCode.INVALID_RECORD, "A partition's records must be exactly one record batch.")
    return header


def batch_end(records: Buffer, position: int) -> int | None:
    """Return the end of the batch or message at `position`; None when it is incomplete. Raises InvalidBatch."""
    end = frame_end(records, position)
    if end is not None and end - position < HEADER_BYTES and magic_at(records, position) == MAGIC_V2:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"A batch of {end - position} bytes has no whole header.")
    return end


def frame_end(records: Buffer, position: int) -> int | None:
    """Like `batch_end`, by length and magic alone."""
    left = len(records) - position
    if left < LENGTH_OVERHEAD_BYTES:
        return None
    length = int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
    if length < MIN_LEGACY_LENGTH:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({MIN_LEGACY_LENGTH})",
        )
    if left <= MAGIC_POSITION:
        return None
    magic = magic_at(records, position)
    if magic > MAGIC_V2:
        raise unknown_magic(magic)
    size_bytes = LENGTH_OVERHEAD_BYTES + length
    return None if left < size_bytes else position + size_bytes


def _check_client_batch(records: Buffer, header: BatchHeader, config: LogConfig, partition: str) -> None:
    """Check the header and the CRC."""
    if header.base_offset != 0:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {partition} should be 0, "
            f"but it is {header.base_offset}",
        )
    _check_size(header, config, partition)
    if not crc_is_valid(records, 0, header):
        raise _corrupt(header)
    count, offsets_count = header.records_count, header.last_offset_delta + 1
    if offsets_count <= 0:
        raise _contradiction(f"Batch has an invalid offset range: [0, {header.last_offset_delta}] in {partition}")
    if count <= 0:
        raise _contradiction(f"Invalid reported count for record batch: {count} in {partition}")
    if offsets_count != count:
        span = f"[0, {header.last_offset_delta}]"
        raise _contradiction(f"Inconsistent batch offset range {span} and count of records {count} in {partition}")
    if header.is_control:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"Clients are not allowed to write control records in {partition}")
    if header.has_producer_id and header.base_sequence < 0:
        raise _contradiction(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id} "
            f"in {partition}"
        )
    if header.attributes & COMPRESSION_MASK > Compression.ZSTD:
        _ = header.compression  # raises


def _check_size(header: BatchHeader, config: LogConfig, partition: str) -> None:
    if header.size_bytes > config.max_message_bytes:
        raise RecordsTooLarge(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition} is {header.size_bytes} bytes "
            f"which exceeds the maximum configured value of {config.max_message_bytes}.",
            header.size_bytes,
        )


def _contradiction(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message, Fault.OFFSET_OR_SEQUENCE)


def _corrupt(header: BatchHeader) -> InvalidBatch:
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})", Fault.CRC)


# --- records ---


def _check_records(
    whole: bytearray | memoryview,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    level: ValidationLevel,
    *,
    is_inline: bool,
    is_log_append_time: bool,
    partition: str,
) -> None:
    """Check the records as far as the topic and `level` require; every field when they are rewritten."""
    max_decompressed_bytes, max_steps = MAX_DECOMPRESSED_BYTES, None
    if is_inline:
        max_decompressed_bytes, max_steps = _inline_bytes(header, config), INLINE_STEPS
    limits = _timestamp_limits(config, now_ms)
    is_recompressed = target_compression(header, config) is not None
    if (
        config.is_compacted
        or is_recompressed
        or level is ValidationLevel.FULL
        or header.is_log_append_time
        or (limits is not None and not is_log_append_time)
    ):
        _check_fields(
            whole, header, config, limits, max_decompressed_bytes, max_steps,
            is_log_append_time=is_log_append_time, is_recompressed=is_recompressed, partition=partition,
        )  # fmt: skip
        if is_recompressed:
            _check_producer(header, partition)
    elif level is ValidationLevel.STRUCTURE:
        check_structure(whole, 0, header, max_decompressed_bytes, max_steps)


def _takes_long(header: BatchHeader, config: LogConfig) -> bool:
    """Whether the header shows long work. Compressed data may turn out to be large later."""
    if header.records_count > INLINE_RECORDS:
        return True
    if target_compression(header, config) is None:
        return False
    return header.size_bytes > min(INLINE_RECOMPRESSED_BYTES, _inline_bytes(header, config))


def _inline_bytes(header: BatchHeader, config: LogConfig) -> int:
    """Return the maximum decompressed size of a batch on the event loop."""
    target = target_compression(header, config)
    most_bytes = None if target is None else inline_plain_bytes(target, config)
    return INLINE_DECOMPRESSED_BYTES if most_bytes is None else most_bytes


def _timestamp_limits(config: LogConfig, now_ms: int) -> tuple[int, int] | None:
    """Return the (earliest, latest) timestamp, None when any is valid: the defaults of both limits allow all."""
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    if before == after == _NO_LIMIT:
        return None
    return now_ms - before, now_ms + after


_NO_LIMIT = (1 << 63) - 1


def _check_fields(
    whole: bytearray | memoryview,
    header: BatchHeader,
    config: LogConfig,
    limits: tuple[int, int] | None,
    max_decompressed_bytes: int,
    max_steps: int | None,
    *,
    is_log_append_time: bool,
    is_recompressed: bool,
    partition: str,
) -> None:
    """Check every record. Corrects the max timestamp in `header` and batch, as Kafka does."""
    earliest, latest = limits or (-_NO_LIMIT - 1, _NO_LIMIT)
    is_compacted = config.is_compacted
    claims_append_time = header.is_log_append_time
    min_timestamp = max_timestamp = NO_TIMESTAMP
    errors = RecordErrors()
    for index, (timestamp, has_key) in enumerate(walk_fields(whole, 0, header, max_decompressed_bytes, max_steps)):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        elif timestamp < min_timestamp:
            min_timestamp = timestamp
        if is_compacted and not has_key:
            errors.keyless_count += 1
            errors.add(index, "Compacted topic cannot accept message without key in topic partition {}", partition)
        elif not is_log_append_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                errors.code = ErrorCode.INVALID_TIMESTAMP
                errors.add(
                    index,
                    "Timestamp {} of message with offset {} is out of range. "
                    "The timestamp should be within [{}, {}]",
                    timestamp, index, earliest, latest,
                )  # fmt: skip
        elif claims_append_time:
            errors.code = ErrorCode.INVALID_TIMESTAMP
            errors.add(index, "Invalid timestamp type: a producer should not set it to LogAppendTime.")
    if errors.count:
        raise errors.rejection()
    if is_recompressed and min_timestamp < NO_TIMESTAMP:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"Invalid negative timestamp {min_timestamp} in {partition}")
    if not is_log_append_time:
        patch_timestamp(whole, 0, header, is_log_append_time=False, max_timestamp=max_timestamp)


def _check_producer(header: BatchHeader, partition: str) -> None:
    """Check what Apache Kafka checks in a batch that it rewrites, and accepts in one that it stores unchanged."""
    if header.producer_id == NO_PRODUCER_ID:
        if header.is_transactional:
            raise InvalidBatch(
                ErrorCode.INVALID_RECORD, f"Transactional records without a valid producer ID in {partition}"
            )
    elif header.producer_epoch == NO_PRODUCER_EPOCH or header.base_sequence < 0:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"Invalid epoch {header.producer_epoch} or sequence number {header.base_sequence} "
            f"in record batch with producerId {header.producer_id} in {partition}",
        )
