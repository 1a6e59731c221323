"""Describes what an append did: the offsets assigned, and the range that batches with offsets of their own cover.

Rules: pure. Source: Kafka LogAppendInfo, UnifiedLog.analyzeAndValidateRecords.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.records.batch import BatchHeader
from storage.segments.segment import NO_TIMESTAMP


@dataclass(slots=True)  # not frozen, which takes twice as long to make
class AppendResult:
    """Holds what an append assigned; for a duplicate, what the first append of these records was assigned.

    `log_append_time_ms` is -1 unless the topic stamps records itself.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    records_count: int
    duplicate: bool = False


@dataclass(slots=True)
class Extent:
    """Describes the range that consecutive batches cover. `offset_of_max_timestamp` is the last offset of the batch that has
    the largest timestamp."""

    base_offset: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    records_count: int


def extent_of(headers: list[BatchHeader]) -> Extent:
    """Compute the range of at least one batch. Without any timestamp: NO_TIMESTAMP, and the last offset of all batches."""
    next_offset = headers[-1].next_offset
    extent = Extent(headers[0].base_offset, next_offset, NO_TIMESTAMP, next_offset - 1, 0)
    for header in headers:
        extent.records_count += header.last_offset_delta + 1
        if header.max_timestamp > extent.max_timestamp:
            extent.max_timestamp, extent.offset_of_max_timestamp = header.max_timestamp, header.last_offset
    return extent
