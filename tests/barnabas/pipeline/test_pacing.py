from __future__ import annotations

import pytest

from barnabas.pipeline.pacing import Bucket, Slice, after, slices_at_once, slices_at_rate, slices_at_speed

BUCKETS = [Bucket(10_000, 0, 5), Bucket(10_500, 0, 1), Bucket(12_000, 0, 4), Bucket(40_000, 0, 2)]


def due(slices: list[Slice]) -> list[tuple[float, int]]:
    return [(each.due_s, each.records) for each in slices]


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        (1, [(0, 6), (2, 4), (30, 2)]),
        (2, [(0, 6), (1, 4), (15, 2)]),
        (0.5, [(0, 5), (1, 1), (4, 4), (60, 2)]),
        (100, [(0, 12)]),
    ],
)
def test_a_speed_keeps_the_spacing_of_times(speed: float, expected: list[tuple[float, int]]) -> None:
    assert due(slices_at_speed(BUCKETS, speed)) == expected


@pytest.mark.parametrize(
    ("rate", "expected"), [(1, [(0, 5), (5, 1), (6, 4), (10, 2)]), (5, [(0, 5), (1, 5), (2, 2)]), (1000, [(0, 12)])]
)
def test_a_rate_counts_records(rate: float, expected: list[tuple[float, int]]) -> None:
    assert due(slices_at_rate(BUCKETS, rate)) == expected


@pytest.mark.parametrize("rate", [0.3, 2, 7, 50])
def test_no_slice_comes_before_its_time_and_none_is_lost(rate: float) -> None:
    buckets = [Bucket(n // 3, n % 3, n % 4 + 1) for n in range(60)]
    slices = slices_at_rate(buckets, rate)
    written = 0
    for each in slices:
        assert written >= (each.due_s - 1e-9) * rate, "never more than a tick early"
        written += each.records
    assert written == sum(bucket.records for bucket in buckets)
    assert [each.first for each in slices[1:]] == [buckets[buckets.index(each.last) + 1] for each in slices[:-1]]


def test_without_pace_there_is_one_slice_and_none_of_nothing() -> None:
    assert slices_at_once(BUCKETS) == [Slice(BUCKETS[0], BUCKETS[-1], 12, 0)]
    assert slices_at_once([]) == slices_at_speed([], 1) == slices_at_rate([], 1) == []


def test_a_replay_continues_behind_what_was_written() -> None:
    slices = slices_at_speed(BUCKETS, 1)
    assert after(slices, None) == slices
    assert due(after(slices, (10_500, 0))) == [(0, 4), (28, 2)]
    assert after(slices, (40_000, 0)) == []
