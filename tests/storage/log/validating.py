"""What the tests of validation share: topics, a batch, and what becomes of records that a client sends."""

from __future__ import annotations

import pytest

from config.topic import LogConfig
from protocol.errors import KafkaError
from protocol.records.compression import Compression, compress
from protocol.records.record import encode_batch, encode_record
from storage.log.validation import AppendOrigin, ValidatedRecords, ValidationLevel, validate
from tests.protocol.records.batches import many_records, with_records
from tests.storage.logs import NOW_MS, config

HOUR_MS = 3_600_000
LEVELS = tuple(ValidationLevel)
BATCH = encode_batch(many_records(20))

PLAIN = config()
APPEND_TIME = config(message_timestamp_type="LogAppendTime")
COMPACTED = config(cleanup_policy="compact")
LIMITED = config(message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(HOUR_MS))


def produced(
    records: bytes | bytearray | memoryview,
    topic: LogConfig = PLAIN,
    *,
    version: int | None = 9,
    level: ValidationLevel = ValidationLevel.STRUCTURE,
) -> ValidatedRecords:
    return validate(
        records, config=topic, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, produce_version=version, level=level
    )


def refusal(
    records: bytes | bytearray,
    topic: LogConfig = PLAIN,
    *,
    version: int | None = 9,
    level: ValidationLevel = ValidationLevel.STRUCTURE,
) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        produced(records, topic, version=version, level=level)
    return caught.value


def swapped(codec: Compression) -> bytes:
    """A batch whose records have the deltas 0 2 1 3."""
    records = many_records(4)
    block = b"".join(encode_record(record, delta, 0) for delta, record in zip([0, 2, 1, 3], records, strict=True))
    return bytes(with_records(encode_batch(records, compression=codec), compress(codec, block)))
