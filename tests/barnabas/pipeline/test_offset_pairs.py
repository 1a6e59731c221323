from __future__ import annotations

import pytest

from barnabas.pipeline.offset_pairs import (
    MOST_PAIRS,
    OffsetPair,
    PairsOfPartition,
    pair_value,
    pairs_of_batch,
    parse_pair,
    to_advance,
)


@pytest.mark.parametrize(
    ("first", "last", "records", "before", "after", "expected"),
    [
        (10, 14, 5, 100, 105, [OffsetPair(10, 100, 5), OffsetPair(15, 105)]),
        (10, 19, 5, 100, 105, [OffsetPair(10, 100), OffsetPair(20, 105)]),
        (10, 14, 5, 100, 110, [OffsetPair(15, 110)]),
        (10, 14, 5, 100, 103, [OffsetPair(15, 103)]),
    ],
    ids=["one by one", "gaps in the source", "written twice", "fewer"],
)
def test_pairs_say_what_is_certain(
    first: int, last: int, records: int, before: int, after: int, expected: list[OffsetPair]
) -> None:
    assert pairs_of_batch(first, last, records, before, after) == expected


@pytest.mark.parametrize(
    ("committed", "translated"),
    [(9, None), (10, 100), (12, 102), (14, 104), (15, 105), (19, 105), (20, 105), (29, 105), (30, 110), (99, 110)],
)
def test_a_committed_offset_is_translated_and_skips_nothing(committed: int, translated: int | None) -> None:
    pairs = PairsOfPartition()
    pairs.add(pairs_of_batch(10, 14, 5, 100, 105))
    pairs.add(pairs_of_batch(20, 29, 5, 105, 110))
    assert pairs.translate(committed) == translated


def test_a_repeated_batch_replaces_its_first_attempt() -> None:
    pairs = PairsOfPartition()
    pairs.add(pairs_of_batch(10, 14, 5, 100, 105))
    pairs.add(pairs_of_batch(10, 14, 5, 105, 110))
    assert pairs.pairs == [OffsetPair(10, 105, 5), OffsetPair(15, 110)]


def test_old_pairs_are_forgotten() -> None:
    pairs = PairsOfPartition()
    for n in range(MOST_PAIRS + 5):
        pairs.add([OffsetPair(n, n + 1)])
    assert len(pairs.pairs) == MOST_PAIRS
    assert pairs.translate(4) is None


def test_offsets_of_a_group_do_not_go_back() -> None:
    translated = {("t", 0): 5, ("t", 1): 6, ("t", 2): 7}
    assert to_advance(translated, {("t", 0): 5, ("t", 1): 5}) == {("t", 1): 6, ("t", 2): 7}


def test_a_pair_goes_through_its_record() -> None:
    pair = OffsetPair(1, 2, 3)
    assert parse_pair(pair_value("a-b", 4, pair)) == (("a-b", 4), pair)
