"""Decides which of a log's oldest segments have expired. Pure.

    [ segment ][ segment ][ segment ][ active ]
     start offset  ------->                         nothing of it is readable any more
     size          ------------------>              the log is larger than retention.bytes without it
     time          ------------------------------>  its newest record is older than retention.ms

The three rules take segments from the start of the log, one after the other, each where the last one stopped. Only whole
segments go, and none that reaches past the high watermark, or the log would start behind what its followers have. The
active segment may go by time or size when all of it is due (its log rolls first, so that one is left), never while it is
empty. A topic that is only compacted keeps to the first rule.

Rules: pure. Source: Kafka UnifiedLog.deleteOldSegments and deletableSegments; KIP-107 (log start offset).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class RetentionLimits(Protocol):
    """The topic settings that retention needs (see `config.topic.LogConfig`). Negative limits mean none."""

    @property
    def deletes_by_retention(self) -> bool: ...

    @property
    def retention_bytes(self) -> int: ...

    @property
    def retention_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """A segment as retention needs it. `newest_ms` is the largest timestamp of its records, or the modification time of its
    file if they have none; None while it is unknown."""

    end_offset: int
    size_bytes: int
    newest_ms: int | None


@dataclass(frozen=True, slots=True)
class Expired:
    """The number of expired segments at the start of a log, by the limit that they have exceeded."""

    by_start_offset: int = 0
    by_size: int = 0
    by_time: int = 0
    undated: int | None = None
    """The segment whose `newest_ms` has to be known before the result is complete."""

    @property
    def count(self) -> int:
        return self.by_start_offset + self.by_size + self.by_time


def expired_segments(
    segments: Sequence[SegmentExtent],
    limits: RetentionLimits,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> Expired:
    """Count the expired segments; `segments` in order, the active one last."""
    deletable = _deletable(segments, high_watermark)
    by_start_offset = 0
    # The active segment stays: that all of it lies below the start says nothing about what is appended next.
    while by_start_offset < min(deletable, len(segments) - 1) and (
        segments[by_start_offset].end_offset <= log_start_offset
    ):
        by_start_offset += 1
    if not limits.deletes_by_retention:
        return Expired(by_start_offset)
    at = by_start_offset
    if limits.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments[at:]) - limits.retention_bytes
        while at < deletable and excess_bytes >= segments[at].size_bytes:
            excess_bytes -= segments[at].size_bytes
            at += 1
    by_size = at - by_start_offset
    undated: int | None = None
    if limits.retention_ms >= 0:
        while at < deletable:
            newest_ms = segments[at].newest_ms
            if newest_ms is None:
                undated = at
                break
            if now_ms - newest_ms <= limits.retention_ms:
                break
            at += 1
    return Expired(by_start_offset, by_size, at - by_start_offset - by_size, undated)


def _deletable(segments: Sequence[SegmentExtent], high_watermark: int) -> int:
    """Return how many of the first segments may be deleted at all."""
    count = len(segments) if segments[-1].size_bytes else len(segments) - 1
    while count and segments[count - 1].end_offset > high_watermark:
        count -= 1
    return count
