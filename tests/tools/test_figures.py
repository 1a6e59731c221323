"""Histograms, and sequences that must be complete."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.histogram import Histogram
from tools.sequences import Intervals, PartitionCheck, verdict


def test_quantiles_are_within_a_percent() -> None:
    histogram = Histogram()
    values = [number / 10 for number in range(1, 10_001)]
    for value in random.Random(1).sample(values, len(values)):
        histogram.add(value)
    for quantile in (0.01, 0.5, 0.99, 0.999):
        assert histogram.quantile_ms(quantile) == pytest.approx(quantile * 1000, rel=0.011)
    assert histogram.row()["max_ms"] == 1000.0
    assert histogram.row()["mean_ms"] == pytest.approx(500.05)


def test_an_empty_histogram_is_zero() -> None:
    assert set(Histogram().row().values()) == {0.0}


@given(st.lists(st.integers(0, 60)), st.lists(st.integers(0, 60)))
def test_intervals_are_a_set(some: list[int], others: list[int]) -> None:
    first, second = Intervals(), Intervals()
    for number in some:
        first.add(number)
    for number in others:
        second.add(number)
    assert [n for n in range(61) if n in first] == sorted(set(some))
    assert len(first) == len(set(some))
    missing = first.missing_from(second)
    assert [n for n in range(61) if n in missing] == sorted(set(some) - set(others))
    assert all(later[0] > earlier[1] + 1 for earlier, later in zip(first.pairs, first.pairs[1:], strict=False))


@pytest.mark.parametrize(
    ("read", "missing", "repeated", "out_of_order"),
    [
        ([0, 1, 2, 3], {}, {}, {}),
        ([0, 1, 2, 3, 4], {}, {}, {}),  # 4 was not acknowledged
        ([0, 2, 3], {0: {"count": 1, "sequences": [[1, 1]]}}, {}, {}),
        ([0, 1, 1, 2, 3, 0], {}, {0: 2}, {}),
        ([0, 2, 1, 3], {}, {}, {0: [2]}),
        ([], {0: {"count": 4, "sequences": [[0, 3]]}}, {}, {}),
    ],
)
def test_a_verdict_names_what_is_wrong(
    read: list[int], missing: dict[int, object], repeated: dict[int, int], out_of_order: dict[int, list[int]]
) -> None:
    check = PartitionCheck()
    for offset, sequence in enumerate(read):
        check.read(sequence, offset)
    found = verdict({0: Intervals([[0, 3]])}, {0: check})
    assert (found["missing"], found["repeated"], found["out_of_order"]) == (missing, repeated, out_of_order)
    assert found["is_sound"] is not bool(missing or repeated or out_of_order)
