"""The offset map: latest offsets, its limit, its memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.cleaner.offset_map import NOT_FOUND, OffsetMap

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=60)


@given(KEYS, st.integers(0, 5))
def test_is_a_dictionary(keys: list[bytes | None], start_offset: int) -> None:
    offsets = OffsetMap(1 << 12, 0.9, 100)
    assert offsets.put(keys, range(1, len(keys) + 1), start_offset)
    model = {key: offset for offset, key in enumerate(keys, 1) if key is not None and offset >= start_offset}
    asked = [*keys, b"other"]
    assert offsets.latest(asked) == [NOT_FOUND if key is None else model.get(key, NOT_FOUND) for key in asked]
    assert offsets.entries == len(model)
    assert offsets.latest_offset == max(model.values(), default=-1)


@given(st.integers(1, 40), st.floats(0.05, 1.0), st.integers(1, 60))
def test_stops_when_it_is_full(slots: int, load_factor: float, keys_count: int) -> None:
    offsets = OffsetMap(24 * slots, load_factor, 1 << 40)
    keys = [b"%d" % number for number in range(keys_count)]
    taken = min(offsets.limit, keys_count)
    assert offsets.put(keys, range(100, 100 + keys_count)) == (taken == keys_count)
    assert offsets.entries == taken >= 1
    assert offsets.latest_offset == 100 + taken - 1
    assert offsets.latest(keys) == [100 + at if at < taken else NOT_FOUND for at in range(keys_count)]


def test_a_full_map_takes_no_key_it_knows_either() -> None:
    """As in Apache Kafka, so that both clean up to the same offset."""
    offsets = OffsetMap(24 * 4, 0.5, 1 << 40)
    assert offsets.put([b"a", b"b"], [0, 1])
    assert not offsets.put([b"a"], [2])
    assert offsets.latest([b"a"]) == [0]


def test_has_the_slots_of_apache_kafka() -> None:
    assert OffsetMap(24 * 1000, 0.9, 1 << 40).limit == 900


@pytest.mark.parametrize(("load_factor", "limit"), [(-1.0, 1), (0.0, 1), (1.7e308, 999)])
def test_takes_any_load_factor(load_factor: float, limit: int) -> None:
    """`log.cleaner.io.buffer.load.factor` has no range."""
    assert OffsetMap(24 * 1000, load_factor, 1 << 40).limit == limit


def test_takes_no_more_memory_than_the_keys_that_can_come_need() -> None:
    few = OffsetMap(128 << 20, 0.9, 1000)
    assert few.limit == 1000
    assert few.put([b"%d" % key for key in range(1000)], range(1000))


def test_reached_never_goes_back() -> None:
    offsets = OffsetMap(1 << 10, 0.9, 10)
    offsets.reached(7)
    offsets.reached(5)
    assert offsets.latest_offset == 7
