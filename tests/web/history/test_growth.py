"""Rates from numbers at two times, and lags from commits and ends."""

from __future__ import annotations

import pytest

from client.admin.share_groups import ShareOffset
from web.history.growth import Growth, lag_by_topic, told_lag_by_topic

Looks = list[tuple[int, dict[int, int]]]


@pytest.mark.parametrize(
    ("looks", "rates"),
    [
        pytest.param([(0, {0: 5}), (10_000, {0: 105})], [None, 10.0], id="two looks make a rate"),
        pytest.param([(0, {0: 5, 1: 0}), (1_000, {0: 6, 1: 2})], [None, 3.0], id="partitions are added"),
        pytest.param([(0, {0: 0}), (1_000, {}), (4_000, {0: 8})], [None, None, 2.0], id="one that was not reached"),
        pytest.param([(0, {0: 9, 1: 0}), (1_000, {0: 1, 1: 4})], [None, 4.0], id="a smaller number begins anew"),
        pytest.param([(0, {0: 9}), (1_000, {0: 1}), (2_000, {0: 3})], [None, None, 2.0], id="and grows from there"),
        pytest.param(
            [(0, {0: 1}), (1_000, {0: 2, 1: 50})], [None, 1.0], id="a new partition begins with its first look"
        ),
        pytest.param([(0, {0: 1}), (0, {0: 2})], [None, None], id="no time has passed"),
        pytest.param([(0, {0: 7}), (5_000, {0: 7})], [None, 0.0], id="nothing new is zero, and known"),
    ],
)
def test_growth_is_a_rate_for_each_second(looks: Looks, rates: list[float | None]) -> None:
    growth = Growth()
    assert [growth.observed("orders", numbers, now_ms) for now_ms, numbers in looks] == rates


def test_topics_that_are_gone_are_forgotten() -> None:
    growth = Growth()
    growth.observed("orders", {0: 1, 1: 1}, 0)
    growth.observed("audit", {0: 1}, 0)
    growth.retain({"audit"})
    assert len(growth) == 1
    assert growth.observed("orders", {0: 100}, 1_000) is None


@pytest.mark.parametrize(
    ("commits", "ends", "lags"),
    [
        ({("a", 0): 3, ("a", 1): 4, ("b", 0): 0}, {("a", 0): 10, ("a", 1): 4, ("b", 0): 2}, {"a": 7, "b": 2}),
        ({("a", 0): 3, ("a", 1): 1}, {("a", 0): 1, ("a", 1): 2}, {"a": 1}),
        ({("a", 0): 3}, {}, {}),
        ({}, {("a", 0): 3}, {}),
    ],
    ids=["by topic", "an offset behind the end is subtracted from nothing", "an unknown end", "nothing committed"],
)
def test_lag_is_what_a_group_has_not_committed(
    commits: dict[tuple[str, int], int], ends: dict[tuple[str, int], int], lags: dict[str, int]
) -> None:
    assert lag_by_topic(commits, ends) == lags


def test_the_lag_of_a_share_group_is_told() -> None:
    offsets = {
        ("t", 0): ShareOffset(5, 3), ("t", 1): ShareOffset(5, 4), ("t", 2): ShareOffset(5, None), ("u", 0): ShareOffset(9, -4),
    }  # fmt: skip
    assert told_lag_by_topic(offsets) == {"t": 7, "u": 0}
    assert told_lag_by_topic({}) == {}
