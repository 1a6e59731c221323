"""What source partitions need of buckets, as text, and what may be deleted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.relaying.needs import BucketNeeds, deletable, needs_of, needs_text


@given(st.integers(1, 1_000), st.dictionaries(st.integers(1, 4), st.integers(0, 1 << 40)))
def test_a_text_is_read_as_it_was_written(log_partitions: int, lowest: dict[int, int]) -> None:
    needs = BucketNeeds(log_partitions, lowest)
    assert needs_of(needs_text(needs)) == needs


@pytest.mark.parametrize("text", [None, ""])
def test_nothing_is_needed(text: str | None) -> None:
    assert needs_of(text) == BucketNeeds(None, {})


@pytest.mark.parametrize("text", ["week=1", "hour", "hour=x"])
def test_another_text_is_no_need(text: str) -> None:
    with pytest.raises(ValueError, match=r"week|invalid|x"):
        needs_of(text)


def test_what_may_be_deleted_ends_where_anybody_needs_it() -> None:
    needs = [BucketNeeds(4, lowest) for lowest in ({1: 10, 2: 50}, {1: 7}, {})]
    assert [deletable(100, needs, tier) for tier in (1, 2, 3)] == [7, 50, 100]
    assert deletable(5, needs, 1) == 5
