"""Quantiles are near the true ones, favour recent values, and cost no more than counting."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.distribution import (
    BOUNDS,
    DISTINCT_MAX,
    TABLE_SIZE,
    UNIT_BITS,
    UNIT_BUCKETS,
    Distribution,
    ValueCounts,
    cumulative,
)

WIDEST = 4 / 3
"""No bucket ends further above its begin."""


def _of(values: list[int]) -> Distribution:
    distribution = Distribution()
    for value in values:
        distribution.add(value)
    return distribution


def test_the_buckets_are_narrow() -> None:
    assert max(high / low for low, high in pairwise(BOUNDS)) <= WIDEST


@given(st.lists(st.integers(11, 10**11), min_size=1, max_size=60))
def test_a_quantile_lies_in_the_bucket_of_the_value_at_its_place(values: list[int]) -> None:
    ordered = sorted(values)
    for label, found in _of(values).quantiles(0):
        share = float(label)
        place = next(index for index in range(len(ordered)) if index + 1 >= share * len(ordered))
        assert ordered[place] / WIDEST <= found <= ordered[place] * WIDEST


def test_without_values_the_quantiles_are_0_and_beyond_the_last_bound_they_are_that() -> None:
    assert {value for _, value in Distribution().quantiles(0)} == {0}
    assert {value for _, value in _of([0, 3]).quantiles(0)} == {0}
    assert {value for _, value in _of([10**14]).quantiles(0)} == {10**11}


def test_recent_values_weigh_more_and_the_last_ones_stay() -> None:
    distribution = _of([1_000_000] * 100)
    assert dict(distribution.quantiles(0))["0.50"] == pytest.approx(1_000_000, rel=0.3)
    for _ in range(30):
        distribution.add(50_000_000)
    soon = dict(distribution.quantiles(1_000))
    assert soon["0.50"] == pytest.approx(1_000_000, rel=0.3)
    assert soon["0.99"] == pytest.approx(50_000_000, rel=0.3)
    assert dict(distribution.quantiles(3_600_000)) == soon, "nothing came since"
    distribution.add(50_000_000)
    assert dict(distribution.quantiles(3_600_000))["0.50"] == pytest.approx(50_000_000, rel=0.3)


def test_the_weight_of_a_value_falls_by_half_in_46_s() -> None:
    distribution = _of([1_000] * 100)
    distribution.quantiles(0)
    for _ in range(52):
        distribution.add(9_000)
    assert dict(distribution.quantiles(46_210))["0.50"] > 6_000, "52 new ones outweigh half of 100"


def test_values_that_were_not_added_are_0() -> None:
    distribution = _of([5_000])
    filled = distribution.with_zeros(100)
    assert (filled.count, filled.total) == (100, 5_000)
    quantiles = dict(filled.quantiles(0))
    assert quantiles["0.98"] == 0 and quantiles["0.999"] == pytest.approx(5_000, rel=0.3)
    assert distribution.count == 1


@given(st.lists(st.integers(0, 10**6), max_size=900))
def test_counts_of_values_are_those_of_a_distribution(values: list[int]) -> None:
    counts = ValueCounts()
    for value in values:
        counts[value] += 1
        assert len(counts) <= DISTINCT_MAX
    for _ in range(2):
        assert counts.read() == (_of(values).counts, sum(values))


def test_the_tables_say_what_the_bounds_say() -> None:
    for value in (0, 1, 10, 11, 999, 1_000, 1_001, TABLE_SIZE - 1):
        assert UNIT_BUCKETS[value] == bisect_left(BOUNDS, value << UNIT_BITS)


def test_cumulative_counts() -> None:
    counts = _of([5, 10, 11, 100, 101]).counts
    assert cumulative(counts, [10, 100, 1_000]) == [2, 4, 5]
