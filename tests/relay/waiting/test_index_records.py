from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.waiting.entries import TIERS, WaitingEntry, place_of
from relay.waiting.index_records import (
    MAX_ENTRIES,
    EntryOutcome,
    IndexKey,
    IndexRecordError,
    IndexRecordKind,
    done_record,
    parse_done,
    parse_key,
    parse_position,
    parse_taken,
    position_record,
    taken_record,
)

DUE_TIMES = st.integers(0, 1000) | st.integers(-(1 << 63), (1 << 63) - 1)
PLACES = st.builds(place_of, st.sampled_from(TIERS), st.integers(0, 1000) | st.integers(0, (1 << 56) - 1 - (1 << 29)))
IDS = st.just(0) | st.integers(0, (1 << 64) - 1)
ENTRIES = st.lists(st.builds(WaitingEntry, DUE_TIMES, PLACES, IDS), min_size=1, unique_by=lambda entry: entry.place)


@given(ENTRIES)
def test_a_run_reads_back_in_order_of_due_times(entries: list[WaitingEntry]) -> None:
    key, value = taken_record("later", 7, 12, entries)
    assert parse_key(key) == IndexKey("later", 7, IndexRecordKind.TAKEN, 12)
    assert list(parse_taken(value).entries()) == sorted(entries, key=lambda entry: entry.due_ms)


@given(
    st.lists(st.tuples(PLACES, st.sampled_from(EntryOutcome), IDS), min_size=1), st.integers(-(1 << 63), (1 << 63) - 1)
)
def test_done_entries_read_back(rows: list[tuple[int, EntryOutcome, int]], now_ms: int) -> None:
    key, value = done_record("later", 0, 1 << 40, rows, now_ms)
    assert parse_key(key) == IndexKey("later", 0, IndexRecordKind.DONE, 1 << 40)
    assert parse_done(value).now_ms == now_ms
    assert list(parse_done(value).rows()) == rows


def test_a_position_reads_back() -> None:
    key, value = position_record("later", 5, 1 << 50, -1, bytes(range(16)))
    assert parse_key(key) == IndexKey("later", 5, IndexRecordKind.POSITION, 0)
    assert parse_position(value) == (1 << 50, -1, bytes(range(16)))


@pytest.mark.parametrize(
    "value", [b"", b"\1" + bytes(28), b"\0" + bytes(7) + b"\xff" + bytes(20), bytes(28), bytes(30)]
)
def test_what_is_no_position_is_refused(value: bytes) -> None:
    with pytest.raises(IndexRecordError, match="not a position"):
        parse_position(value)


def test_the_longest_run_is_far_smaller_than_the_least_limit_of_a_record() -> None:
    entries = [WaitingEntry(at << 40, place_of(at % 5, at << 30), at << 48 | 1) for at in range(MAX_ENTRIES)]
    assert len(taken_record("later", 0, 0, entries)[1]) < 1_000_000


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"later",
        b"later:1:taken",
        b"later:1:taken:01",
        b"later:-1:done:1",
        b"later:1:over:1",
        b"\xff:1:done:1",
        b"a:b:1:done:1",
    ],
)
def test_what_is_no_key_is_refused(key: bytes) -> None:
    with pytest.raises(IndexRecordError, match="not a key"):
        parse_key(key)


TAKEN = taken_record("later", 0, 0, [WaitingEntry(5, place_of(1, 9), 3), WaitingEntry(7, place_of(0, 4), 0)])[1]
DONE = done_record("later", 0, 0, [(place_of(1, 9), EntryOutcome.DELIVERED, 3), (4, EntryOutcome.GONE, 0)], 77)[1]


def changed(value: bytes, at: int, to: int) -> bytes:
    return value[:at] + bytes([to]) + value[at + 1 :]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "0 bytes"),
        (changed(TAKEN, 0, 1), "version 1"),
        (changed(TAKEN, 1, 3), "flags 3"),
        (changed(TAKEN, 2, 0), "0 entries"),
        (changed(TAKEN, 2, 1), "of other tiers than declared"),
        (changed(TAKEN, 4, 1), "65538 entries"),
        (changed(TAKEN, 6, 5), "due times of 5 bytes"),
        (changed(TAKEN, 14, 0x7F) + b"\0", "bytes too many"),
        (changed(TAKEN, 15, 9), "not in order"),
        (changed(TAKEN, 23, 0x43), "unknown tiers"),
        (TAKEN + b"\0", "1 bytes too many"),
    ],
)
def test_a_run_that_no_relay_wrote_is_refused(value: bytes, message: str) -> None:
    with pytest.raises(IndexRecordError, match=re.escape(message)):
        parse_taken(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (changed(DONE, 39, 9), "unknown outcomes"),
        (DONE[:10], "the time is missing"),
        (DONE + b"\0", "1 bytes too many"),
    ],
)
def test_a_done_record_that_no_relay_wrote_is_refused(value: bytes, message: str) -> None:
    with pytest.raises(IndexRecordError, match=re.escape(message)):
        parse_done(value)


@pytest.mark.parametrize("value", [TAKEN, DONE], ids=["taken", "done"])
def test_a_record_that_was_cut_is_refused(value: bytes) -> None:
    for end in range(len(value)):
        with pytest.raises(IndexRecordError):
            (parse_taken if value is TAKEN else parse_done)(value[:end])


def test_a_run_with_one_place_twice_is_refused() -> None:
    value = taken_record("later", 0, 0, [WaitingEntry(5, 9, 0), WaitingEntry(7, 9, 0)])[1]
    with pytest.raises(IndexRecordError, match="one place"):
        parse_taken(value)
