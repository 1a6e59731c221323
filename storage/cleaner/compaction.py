"""Plans what the cleaner cleans, in what order and in which groups, from plain facts about a log's segments. Pure.

    [ segment ][ segment ] | [ segment ][ segment ] | [ segment ][ active ]
     clean                 |  cleanable, dirty      |  uncleanable
                  first dirty offset       first uncleanable offset

A log is cleaned when the dirty part makes up more than `min.cleanable.dirty.ratio` of what is cleanable, or has a record
older than `max.compaction.lag.ms`; of several logs the one with the largest ratio goes first. Never cleaned are the active
segment, what is not stable yet (an open transaction, or not replicated), and records younger than `min.compaction.lag.ms`.

A cleaning goes through the whole log up to where its offset map reaches, group by group: neighbouring segments become one
as long as they fit into `segment.bytes`, their indexes into `segment.index.bytes`, and their offsets into 31 bits.

Rules: pure. Source: Kafka LogCleanerManager (cleanableOffsets, grabFilthiestCompactedLog, maxCompactionDelay), LogToClean,
Cleaner.groupSegmentsBySize; KIP-58 (min lag), KIP-354 (max lag).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_OFFSET_RANGE = 0x7FFFFFFF
NO_TIMESTAMP = -1


class CompactionLimits(Protocol):
    """The topic settings that planning needs (see `config.topic.LogConfig`)."""

    @property
    def min_cleanable_dirty_ratio(self) -> float: ...

    @property
    def min_compaction_lag_ms(self) -> int: ...

    @property
    def max_compaction_lag_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment as planning sees it. `newest_ms` is its largest timestamp, or the time of its file when it has none;
    `first_batch_ms` the first batch's, NO_TIMESTAMP without one. Both are needed only where a lag is set."""

    base_offset: int
    size_bytes: int
    newest_ms: int = NO_TIMESTAMP
    first_batch_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class CleaningRange:
    """The part of a log that can be cleaned now."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """The base offset of a segment."""
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int
    """By how much the oldest dirty record is over `max.compaction.lag.ms`; 0 when it is not."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.dirty_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due(self, limits: CompactionLimits) -> bool:
        if not self.total_bytes:
            return False
        return (self.delay_ms > 0 and self.dirty_bytes > 0) or self.dirty_ratio > limits.min_cleanable_dirty_ratio


def first_dirty_offset(checkpointed: int | None, log_start_offset: int, log_end_offset: int) -> int:
    """Return where cleaning continues. A checkpoint outside the log is ignored: the log was truncated, or its start has
    risen."""
    if checkpointed is None or not log_start_offset <= checkpointed <= log_end_offset:
        return log_start_offset
    return checkpointed


def needs_timestamps(limits: CompactionLimits, *, now_ms: int) -> bool:
    """Whether `cleaning_range` needs `newest_ms` and `first_batch_ms`."""
    return limits.min_compaction_lag_ms > 0 or limits.max_compaction_lag_ms < now_ms


def cleaning_range(
    segments: Sequence[SegmentFacts],
    limits: CompactionLimits,
    *,
    first_dirty_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CleaningRange:
    """Compute the range; `segments` in order, the active one last."""
    base_offsets = [segment.base_offset for segment in segments]
    # From the segment that holds the first dirty offset to the one before the active one.
    dirty = segments[max(bisect_right(base_offsets, first_dirty_offset) - 1, 0) : -1]
    uncleanable_offset = min(last_stable_offset, base_offsets[-1])
    if limits.min_compaction_lag_ms > 0:
        young_ms = now_ms - limits.min_compaction_lag_ms
        for segment in dirty:
            if segment.newest_ms > young_ms:
                uncleanable_offset = min(uncleanable_offset, segment.base_offset)
                break
    uncleanable_offset = max(first_dirty_offset, uncleanable_offset)
    # A segment is cleaned as a whole or not at all.
    at = max(bisect_right(base_offsets, uncleanable_offset) - 1, 0)
    first_uncleanable_offset = base_offsets[at]
    clean_bytes = sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty_offset)
    from_offset = min(first_dirty_offset, first_uncleanable_offset)
    first = max(bisect_right(base_offsets, from_offset) - 1, 0)
    dirty_bytes = sum(segment.size_bytes for segment in segments[first:at])
    return CleaningRange(
        first_dirty_offset, first_uncleanable_offset, clean_bytes, dirty_bytes, _delay_ms(dirty, limits, now_ms)
    )


def _delay_ms(dirty: Sequence[SegmentFacts], limits: CompactionLimits, now_ms: int) -> int:
    oldest_ms = min((segment.first_batch_ms for segment in dirty if segment.first_batch_ms > 0), default=now_ms)
    return max(now_ms - limits.max_compaction_lag_ms - oldest_ms, 0)


# --- groups ---


@dataclass(frozen=True, slots=True)
class SegmentSizes:
    """A segment as grouping sees it: bytes of its `.log`, `.index` and `.timeindex`."""

    base_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SegmentSizes], *, segment_bytes: int, segment_index_bytes: int, first_uncleanable_offset: int
) -> list[Sequence[SegmentSizes]]:
    """Return runs of neighbours, in order, each of which becomes one segment at most as large as the limits."""
    groups: list[Sequence[SegmentSizes]] = []
    start = 0
    while start < len(segments):
        end = start + 1
        size_bytes = segments[start].size_bytes
        offset_index_bytes = segments[start].offset_index_bytes
        time_index_bytes = segments[start].time_index_bytes
        while end < len(segments):
            following = segments[end]
            size_bytes += following.size_bytes
            offset_index_bytes += following.offset_index_bytes
            time_index_bytes += following.time_index_bytes
            end_offset = segments[end + 1].base_offset if end + 1 < len(segments) else first_uncleanable_offset
            # An empty segment has no offset that could be out of range.
            is_in_range = not following.size_bytes or (end_offset - 1 - segments[start].base_offset <= MAX_OFFSET_RANGE)
            fits = size_bytes <= segment_bytes and max(offset_index_bytes, time_index_bytes) <= segment_index_bytes
            if not (fits and is_in_range):
                break
            end += 1
        groups.append(segments[start:end])
        start = end
    return groups
