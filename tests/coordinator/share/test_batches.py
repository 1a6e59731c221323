"""Batches of one state and count: how those of a change overlay what is stored."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.share import batches as batches_module
from coordinator.share.batches import KeptBatch, kept_of, loose_of, merged, spliced
from protocol.share_states import NO_START_OFFSET

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batch(first: int, last: int, count: int = 1, state: int = AVAILABLE) -> KeptBatch:
    return KeptBatch(first, last, count, state)


@pytest.mark.parametrize(
    ("so_far", "changes", "start_offset", "expected"),
    [
        ([], [], NO_START_OFFSET, []),
        ([batch(1, 5)], [], NO_START_OFFSET, [batch(1, 5)]),
        # below the start offset nothing is kept
        ([batch(1, 5)], [batch(7, 9)], 6, [batch(7, 9)]),
        ([batch(1, 5)], [], 3, [batch(3, 5)]),
        # of one kind
        ([batch(1, 5)], [batch(6, 9)], NO_START_OFFSET, [batch(1, 9)]),
        ([batch(1, 5)], [batch(3, 9)], NO_START_OFFSET, [batch(1, 9)]),
        ([batch(1, 9)], [batch(3, 5)], NO_START_OFFSET, [batch(1, 9)]),
        ([batch(1, 5)], [batch(7, 9)], NO_START_OFFSET, [batch(1, 5), batch(7, 9)]),
        # the higher count counts
        ([batch(1, 9)], [batch(3, 5, 2)], NO_START_OFFSET, [batch(1, 2), batch(3, 5, 2), batch(6, 9)]),
        ([batch(1, 9, 2)], [batch(3, 5)], NO_START_OFFSET, [batch(1, 9, 2)]),
        ([batch(1, 5, 2)], [batch(3, 9)], NO_START_OFFSET, [batch(1, 5, 2), batch(6, 9)]),
        ([batch(1, 5)], [batch(3, 9, 2)], NO_START_OFFSET, [batch(1, 2), batch(3, 9, 2)]),
        ([batch(1, 5)], [batch(1, 9, 2)], NO_START_OFFSET, [batch(1, 9, 2)]),
        ([batch(1, 5, 2)], [batch(1, 9)], NO_START_OFFSET, [batch(1, 5, 2), batch(6, 9)]),
        ([batch(1, 5)], [batch(3, 5, 2)], NO_START_OFFSET, [batch(1, 2), batch(3, 5, 2)]),
        # of one count the higher state counts
        ([batch(1, 5)], [batch(1, 5, 1, ACKNOWLEDGED)], NO_START_OFFSET, [batch(1, 5, 1, ACKNOWLEDGED)]),
        ([batch(1, 5, 1, ARCHIVED)], [batch(1, 5, 1, ACKNOWLEDGED)], NO_START_OFFSET, [batch(1, 5, 1, ARCHIVED)]),
        # as in Apache Kafka the first neighbour was passed already when the second became of its kind
        (
            [batch(1, 5, 1, ACKNOWLEDGED), batch(6, 9)],
            [batch(6, 9, 1, ACKNOWLEDGED)],
            NO_START_OFFSET,
            [batch(1, 5, 1, ACKNOWLEDGED), batch(6, 9, 1, ACKNOWLEDGED)],
        ),
    ],
)
def test_merged(
    so_far: list[KeptBatch], changes: list[KeptBatch], start_offset: int, expected: list[KeptBatch]
) -> None:
    assert list(merged(so_far, changes, start_offset)) == expected


BATCHES = st.lists(
    st.builds(
        lambda first, length, count, state: batch(first, first + length, count, state),
        st.integers(0, 30), st.integers(0, 12), st.integers(1, 3), st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
    ),
    max_size=12,
)  # fmt: skip

MANY_BATCHES = st.lists(
    st.builds(
        lambda first, length, count: batch(first, first + length, count),
        st.integers(0, 45), st.integers(0, 2), st.integers(1, 3),
    ),
    min_size=10, max_size=40,
)  # fmt: skip


@given(BATCHES, BATCHES, st.integers(-1, 20))
def test_the_highest_kind_of_each_offset_is_kept(
    so_far: list[KeptBatch], changes: list[KeptBatch], start_offset: int
) -> None:
    expected: dict[int, tuple[int, ...]] = {}
    for each in [*so_far, *changes]:
        for offset in range(max(each.first_offset, start_offset), each.last_offset + 1):
            expected[offset] = max(expected.get(offset, ()), each[2:])
    found = merged(so_far, changes, start_offset)
    offsets = [(offset, each[2:]) for each in found for offset in range(each.first_offset, each.last_offset + 1)]
    assert offsets == sorted(expected.items())
    assert merged(found, ()) == merged(merged(found, ()), ())


@given(st.lists(BATCHES, max_size=8), st.lists(st.integers(-1, 40), min_size=8, max_size=8), st.data())
def test_a_change_is_spliced_in_as_if_all_were_merged(
    changes: list[list[KeptBatch]], starts: list[int], data: st.DataObject
) -> None:
    so_far = merged((), data.draw(MANY_BATCHES))
    loose = loose_of(so_far)
    with mock.patch.object(batches_module, "FEW_BATCHES", 0):
        for each, start_offset in zip(changes, starts, strict=False):
            found, loose = spliced(so_far, loose, each, start_offset)
            so_far = merged(so_far, each, start_offset)
            assert found == so_far
            assert loose == loose_of(so_far)


def test_batches_out_of_order_are_merged_as_a_whole() -> None:
    """As only another broker can have stored them."""
    stored = tuple(batch(offset, offset + 2) for offset in range(40, 0, -2))
    assert loose_of(stored) is None
    assert spliced(stored, None, [batch(100, 100)]) == ((batch(2, 42), batch(100, 100)), ())


def test_a_batch_without_offsets_is_none() -> None:
    assert kept_of([(1, 1, 2, 4), (5, 4, 1, 2), (-3, 0, 1, 9)]) == (batch(1, 1, 2, 4), batch(-3, 0, 1, 9))
