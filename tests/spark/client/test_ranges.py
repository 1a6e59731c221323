"""Ranges are divided without a loss, and limited in proportion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.ranges import OffsetRange, divide, limit

sizes = st.lists(st.integers(0, 1000), min_size=1, max_size=6)


@given(sizes=sizes, min_tasks=st.none() | st.integers(1, 40), max_records=st.none() | st.integers(1, 300))
def test_a_division_has_every_offset_once(sizes: list[int], min_tasks: int | None, max_records: int | None) -> None:
    whole = [OffsetRange("t", number, 5, 5 + size) for number, size in enumerate(sizes)]
    parts = divide(whole, min_tasks, max_records)
    covered = [(part.partition, offset) for part in parts for offset in range(part.start, part.end)]
    assert covered == [(each.partition, offset) for each in whole for offset in range(each.start, each.end)]
    assert all(part.end > part.start for part in parts)
    if min_tasks is not None:
        assert len(parts) >= min(min_tasks, len(covered))
    if max_records is not None:
        assert all(part.end - part.start <= max_records for part in parts)


def test_without_wishes_a_partition_is_a_task() -> None:
    whole = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 3, 3), OffsetRange("u", 0, 2, 4)]
    assert divide(whole, None, None) == [whole[0], whole[2]]
    assert [(each.start, each.end) for each in divide(whole[:1], 3, None)] == [(0, 3), (3, 6), (6, 10)]


@given(sizes=sizes, most=st.integers(1, 5000))
def test_a_limit_is_kept_and_everything_advances(sizes: list[int], most: int) -> None:
    start = {("t", number): 7 for number in range(len(sizes))}
    end = {("t", number): 7 + size for number, size in enumerate(sizes)}
    found = limit(start, end, most)
    assert found.keys() == end.keys()
    for key, offset in found.items():
        assert start[key] <= offset <= end[key]
        assert offset > start[key] or end[key] == start[key]
    assert sum(found.values()) - sum(start.values()) <= most + len(sizes)  # one at least of each


def test_no_limit_and_a_large_one_change_nothing() -> None:
    start, end = {("t", 0): 0}, {("t", 0): 100}
    assert limit(start, end, None) == end
    assert limit(start, end, 100) == end
    assert limit(start, end, 99) == {("t", 0): 99}
