"""What is cleaned, when, and in which portions: facts in, plan out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from storage.cleaner.compaction import (
    CleaningRange,
    SegmentFacts,
    SegmentSizes,
    cleaning_range,
    first_dirty_offset,
    group_segments,
    needs_timestamps,
)

NEVER = (1 << 63) - 1
NOW_MS = 1_000_000
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Limits:
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER


def log(*sizes: int, newest_ms: int = NOW_MS - 10_000, first_batch_ms: int = NOW_MS - 20_000) -> list[SegmentFacts]:
    """Segments of these sizes at 0, 10, 20, …; the last one is active."""
    return [SegmentFacts(10 * at, size, newest_ms, first_batch_ms) for at, size in enumerate(sizes)]


def plan(segments: list[SegmentFacts], limits: Limits = Limits(), dirty: int = 0, stable: int = 1000) -> CleaningRange:
    return cleaning_range(segments, limits, first_dirty_offset=dirty, last_stable_offset=stable, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("checkpointed", "expected"),
    [(None, 5), (4, 5), (5, 5), (7, 7), (20, 20), (21, 5)],
    ids=["never cleaned", "below the start", "at the start", "inside", "at the end", "behind the end"],
)
def test_where_cleaning_goes_on(checkpointed: int | None, expected: int) -> None:
    assert first_dirty_offset(checkpointed, log_start_offset=5, log_end_offset=20) == expected


def test_all_but_the_active_segment_is_cleanable() -> None:
    assert plan(log(100, 100, 50)) == CleaningRange(0, 20, 0, 200, 0)


def test_a_log_with_an_active_segment_alone_has_nothing_to_clean() -> None:
    found = plan(log(100))
    assert (found.first_uncleanable_offset, found.total_bytes, found.dirty_ratio) == (0, 0, 0.0)
    assert not found.is_due(Limits(min_cleanable_dirty_ratio=0))


def test_what_was_cleaned_counts_as_clean() -> None:
    found = plan(log(300, 100, 50), dirty=10)
    assert (found.clean_bytes, found.dirty_bytes, found.dirty_ratio) == (300, 100, 0.25)
    assert not found.is_due(Limits())
    assert found.is_due(Limits(min_cleanable_dirty_ratio=0.2))


def test_the_ratio_has_to_be_above_its_limit() -> None:
    found = plan(log(100, 100, 50), dirty=10)
    assert found.dirty_ratio == 0.5
    assert not found.is_due(Limits())


def test_a_segment_that_is_clean_in_part_counts_on_both_sides() -> None:
    found = plan(log(100, 100, 50), dirty=15)
    assert (found.first_dirty_offset, found.clean_bytes, found.dirty_bytes) == (15, 200, 100)


@pytest.mark.parametrize(("stable", "uncleanable"), [(0, 0), (9, 0), (10, 10), (25, 20), (1000, 30)])
def test_what_is_not_stable_is_not_cleaned(stable: int, uncleanable: int) -> None:
    """And a segment is cleaned as a whole or not at all."""
    found = plan(log(100, 100, 100, 100), stable=stable)
    assert found.first_uncleanable_offset == uncleanable
    assert found.dirty_bytes == 10 * uncleanable


def test_young_records_are_not_cleaned() -> None:
    segments = log(100, 100, 100, 100)
    segments[1] = replace(segments[1], newest_ms=NOW_MS - 999)
    assert plan(segments, Limits(min_compaction_lag_ms=1000)).first_uncleanable_offset == 10
    assert plan(segments, Limits(min_compaction_lag_ms=999)).first_uncleanable_offset == 30


def test_old_segments_behind_a_young_one_wait_for_it() -> None:
    segments = log(100, 100, 100)
    segments[0] = replace(segments[0], newest_ms=NOW_MS)
    assert plan(segments, Limits(min_compaction_lag_ms=1)).dirty_bytes == 0


def test_a_record_that_waits_too_long_makes_a_log_due() -> None:
    limits = Limits(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=15_000)
    found = plan(log(300, 100, 50), limits, dirty=10)
    assert found.delay_ms == 5_000
    assert found.is_due(limits)
    assert not plan(log(300, 100, 50), limits, dirty=20).is_due(limits), "nothing is dirty"
    assert plan(log(1, 1, first_batch_ms=-1), limits).delay_ms == 0, "no timestamp, no age"


def test_timestamps_are_asked_for_only_where_a_lag_is_set() -> None:
    assert not needs_timestamps(Limits(), now_ms=NOW_MS)
    assert needs_timestamps(Limits(min_compaction_lag_ms=1), now_ms=NOW_MS)
    assert needs_timestamps(Limits(max_compaction_lag_ms=HOUR_MS // 10), now_ms=NOW_MS)


# --- groups ---


def groups(*sizes: int, index: int = 8, bases: list[int] | None = None, uncleanable: int = 1 << 40) -> list[list[int]]:
    """Sizes by group, with 100 bytes a segment and 20 an index."""
    bases = bases or [10 * at for at in range(len(sizes))]
    segments = [SegmentSizes(base, size, index, index) for base, size in zip(bases, sizes, strict=True)]
    found = group_segments(segments, segment_bytes=100, segment_index_bytes=20, first_uncleanable_offset=uncleanable)
    return [[each.size_bytes for each in group] for group in found]


def test_small_neighbours_become_one() -> None:
    assert groups() == []
    assert groups(40, 60, 1, index=1, uncleanable=30) == [[40, 60], [1]]
    assert groups(120, 10, 90, 5, index=1, uncleanable=40) == [[120], [10, 90], [5]]


def test_indexes_have_to_fit_as_well() -> None:
    assert groups(1, 1, 1, 1, 1, index=8, uncleanable=50) == [[1, 1], [1, 1], [1]]


def test_offsets_have_to_fit_into_31_bits() -> None:
    far = 1 << 31
    assert groups(1, 1, index=1, bases=[0, 10], uncleanable=far) == [[1, 1]]
    assert groups(1, 1, index=1, bases=[0, 10], uncleanable=far + 1) == [[1], [1]]
    assert groups(1, 1, 1, index=1, bases=[0, 10, far + 1], uncleanable=far + 2) == [[1], [1, 1]]


def test_an_empty_segment_goes_along_however_far_it_is() -> None:
    assert groups(1, 0, index=1, bases=[0, 10], uncleanable=1 << 33) == [[1, 0]]
