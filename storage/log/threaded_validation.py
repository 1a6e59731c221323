"""Checks a client's records in a reader thread, when that would take too long on the event loop.

Rules: one at a time in a broker, to bound memory and to leave threads to readers.
Source: none in Kafka, whose request threads validate.
"""

from __future__ import annotations

from functools import partial

from runtime.disk.filesystem import Buffer
from storage.log.partition_log import PartitionLog
from storage.log.validation import AppendOrigin, ValidatedRecords, ValidationLevel, validate


async def validate_in_thread(
    log: PartitionLog, records: Buffer, *, now_ms: int, produce_version: int | None
) -> ValidatedRecords:
    """Check records for which `PartitionLog.append` raised LongValidation; the result is its `checked`. Raises KafkaError."""
    environment = log.environment
    job = partial(
        validate, records, config=log.config, origin=AppendOrigin.CLIENT, now_ms=now_ms,
        produce_version=produce_version, level=ValidationLevel(environment.validation), partition=log.name,
    )  # fmt: skip
    async with environment.validating:
        return await environment.readers.run(job)
