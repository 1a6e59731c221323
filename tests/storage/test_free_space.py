"""When a directory counts as full, and who may still write into it."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from storage.free_space import LONGEST_LOOK_MS, REFUSED_PAUSE_MS, SHORTEST_LOOK_MS, FreeSpace, MiB, Room, is_no_space

FLOOR = 256 * MiB


def measured(*free_bytes: int, floor: int = FLOOR) -> FreeSpace:
    space = FreeSpace(floor)
    for at, free in enumerate(free_bytes):
        space.on_measured(free, at)
    return space


@pytest.mark.parametrize(
    ("free_bytes", "room"),
    [
        ([FLOOR], Room.OPEN),
        ([FLOOR - 1], Room.RESERVE),
        ([FLOOR // 4], Room.RESERVE),
        ([FLOOR // 4 - 1], Room.NONE),
        ([0], Room.NONE),
        ([FLOOR - 1, FLOOR], Room.RESERVE),
        ([FLOOR - 1, FLOOR + FLOOR // 8], Room.OPEN),
        ([0, FLOOR // 2], Room.RESERVE),
        ([0, FLOOR * 2], Room.OPEN),
        ([FLOOR * 2, FLOOR], Room.OPEN),
    ],
)
def test_room_by_what_was_measured(free_bytes: list[int], room: Room) -> None:
    assert measured(*free_bytes).room is room


def test_a_change_is_told_once() -> None:
    space = FreeSpace(FLOOR)
    assert not space.on_measured(FLOOR, 0)
    assert space.on_measured(FLOOR - 1, 1)
    assert not space.on_measured(FLOOR - 2, 2)
    assert space.on_measured(0, 3)
    assert space.on_measured(FLOOR * 2, 4)


def test_who_may_write() -> None:
    reserve = measured(FLOOR - 1)
    assert reserve.refusal("orders", is_own=True) is None
    assert reserve.refusal("__consumer_offsets", is_own=False) is None
    refusal = reserve.refusal("orders", is_own=False)
    assert refusal is not None
    assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal.code.retriable
    full = measured(0)
    assert full.refusal("orders", is_own=True) is not None
    assert full.refusal("__consumer_offsets", is_own=False) is not None


def test_a_refused_write_counts_for_more_than_what_is_measured() -> None:
    """A quota, or another process: the disk says that it has room."""
    space = measured(FLOOR * 2)
    assert space.on_refused(1000)
    assert not space.on_refused(1001)
    assert not space.on_measured(FLOOR * 2, 1001)
    assert space.room is Room.NONE
    assert space.on_measured(FLOOR * 2, 1001 + REFUSED_PAUSE_MS)
    assert space.room is Room.OPEN


def test_no_floor_means_until_the_disk_refuses() -> None:
    assert measured(0, floor=0).room is Room.OPEN


@given(st.integers(0, 1 << 42), st.integers(0, 1 << 36))
def test_looks_come_soon_enough_to_see_the_floor_coming(free_bytes: int, floor_bytes: int) -> None:
    space = measured(free_bytes, floor=floor_bytes)
    assert SHORTEST_LOOK_MS <= space.next_look_ms <= LONGEST_LOOK_MS
    if space.room is Room.OPEN:
        could_be_written = space.next_look_ms * 2 * MiB
        assert could_be_written <= max(free_bytes - floor_bytes, SHORTEST_LOOK_MS * 2 * MiB)


def test_what_is_no_space() -> None:
    assert is_no_space(OSError(errno.ENOSPC, ""))
    assert is_no_space(OSError(errno.EDQUOT, ""))
    assert not is_no_space(OSError(errno.EIO, ""))
    assert not is_no_space(OSError("no number"))
