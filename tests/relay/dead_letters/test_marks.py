from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.dead_letters.marks import Marks


def marks() -> Marks:
    return Marks("dead", "ab12")


@given(st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 40), min_size=1)), max_size=8), st.randoms())
def test_marks_say_what_was_brought_back_in_any_order(written: list[tuple[int, set[int]]], random: object) -> None:
    taken: set[tuple[int, int]] = set()
    records, found = [], marks()
    for partition, offsets in written:
        new = {offset for offset in offsets if (partition, offset) not in taken}
        if new:
            taken |= {(partition, offset) for offset in new}
            records.append(found.record(partition, new))
    random.shuffle(records)  # type: ignore[attr-defined]
    for key, value in [*records, *records[:2]]:
        found.replay(key, value)
    assert {
        (partition, offset) for partition in range(3) for offset in range(42) if found.has(partition, offset)
    } == taken


def test_marks_of_deleted_letters_are_removed() -> None:
    found = marks()
    low, high = found.record(0, [3, 4, 7]), found.record(0, [9])
    for record in (low, high):
        found.replay(*record)
    assert found.obsolete({0: 7}) == []
    assert found.obsolete({0: 8}) == [low[0]]
    assert found.obsolete({1: 100}) == []
    found.replay(low[0], None)
    assert [found.has(0, offset) for offset in (3, 7, 9)] == [False, False, True]


@pytest.mark.parametrize(
    "value", [b"", b"x", b"[]", b'{"ranges": 5}', b'{"ranges": [[1], ["a", "b"], 7]}', b"[" * 100_000]
)
def test_what_is_no_mark_is_passed_over(value: bytes) -> None:
    found = marks()
    key, right = found.record(0, [1])
    found.replay(value, right)
    found.replay(None, right)
    found.replay(json.dumps(json.loads(key) | {"partition": "0"}).encode(), right)
    found.replay(key, value)
    assert not found.has(0, 1)


def test_a_topic_that_was_made_again_has_no_marks() -> None:
    found = marks()
    found.replay(*Marks("dead", "ab13").record(0, [1]))
    found.replay(*Marks("other", "ab12").record(0, [1]))
    assert not found.has(0, 1)
