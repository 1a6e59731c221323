"""Entries of a transaction index: Kafka's bytes, searches against a walk over all of them, and files that cannot be right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.segments.txn_index import (
    ENTRY_BYTES,
    MAX_CACHED_BYTES,
    AbortedTxn,
    CorruptTxnIndex,
    TxnIndex,
    check_content,
    decode_transactions,
    encode_transactions,
    find_in,
    truncated_content,
)

KAFKAS_ENTRY = bytes.fromhex("0000000000000000000700000000000000140000000000000020000000000000001e")
"""Producer 7, from 20 to its marker at 32, all decided up to 30: in Kafka's layout."""


@st.composite
def histories(draw: st.DrawFn) -> list[AbortedTxn]:
    """Entries as a log writes them: markers one behind the other, the last stable offset never falling."""
    found: list[AbortedTxn] = []
    last_offset = stable = 0
    for _ in range(draw(st.integers(0, 30))):
        last_offset += draw(st.integers(1, 6))
        first_offset = draw(st.integers(0, last_offset - 1))
        stable = draw(st.integers(stable, last_offset + 1)) if stable <= last_offset else stable
        found.append(AbortedTxn(draw(st.integers(0, 5)), first_offset, last_offset, stable))
    return found


def walk(entries: Sequence[AbortedTxn], start: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
    """Kafka's search: from the first entry on."""
    found: list[AbortedTxn] = []
    for entry in entries:
        if entry.last_offset >= start and entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            return found, True
    return found, False


def test_an_entry_is_kafkas() -> None:
    entry = AbortedTxn(7, 20, 32, 30)
    assert encode_transactions([entry]) == KAFKAS_ENTRY
    assert list(decode_transactions(KAFKAS_ENTRY)) == [entry]
    assert len(KAFKAS_ENTRY) == ENTRY_BYTES == 34


@given(histories())
def test_what_is_written_is_read(entries: list[AbortedTxn]) -> None:
    content = encode_transactions(entries)
    check_content(content, 0)
    assert list(decode_transactions(content)) == entries
    assert list(decode_transactions(content + b"\0" * 33)) == entries, "an entry that is not whole does not count"


@given(histories(), st.integers(0, 60), st.integers(1, 60))  # what was read holds the offset that was asked for
def test_a_search_finds_what_a_walk_finds(entries: list[AbortedTxn], start: int, length: int) -> None:
    content = encode_transactions(entries)
    found = find_in(content, start, start + length)
    expected, is_complete = walk(entries, start, start + length)
    assert found.transactions == expected
    if is_complete and not found.is_complete:
        raise AssertionError("the search would go on in segments that can know of nothing more")


@given(histories(), st.integers(0, 60))
def test_a_cut_leaves_the_markers_below_it(entries: list[AbortedTxn], offset: int) -> None:
    left = truncated_content(encode_transactions(entries), offset)
    assert list(decode_transactions(left)) == [entry for entry in entries if entry.last_offset < offset]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (KAFKAS_ENTRY[:-1], "multiple"),
        (b"\0\1" + KAFKAS_ENTRY[2:], "version 1"),
        (KAFKAS_ENTRY + KAFKAS_ENTRY, "behind 32"),
        (encode_transactions([AbortedTxn(1, 20, 32, 30), AbortedTxn(2, 21, 31, 31)]), "behind 32"),
        (encode_transactions([AbortedTxn(1, 2, 5, 6)]), "in segment 10"),
        (encode_transactions([AbortedTxn(1, 33, 32, 33)]), "from 33 to 32"),
        (encode_transactions([AbortedTxn(1, 32, 32, 33)]), "from 32 to 32"),
        (bytes(ENTRY_BYTES), "behind 9"),
    ],
)
def test_a_file_that_cannot_be_right_is_told(content: bytes, problem: str) -> None:
    with pytest.raises(CorruptTxnIndex, match=problem):
        check_content(content, 10)


def test_an_unknown_version_is_not_guessed_at() -> None:
    with pytest.raises(CorruptTxnIndex, match="version 3"):
        list(decode_transactions(b"\0\3" + KAFKAS_ENTRY[2:]))


def test_entries_are_appended_where_the_file_ends() -> None:
    index = TxnIndex(0, bytearray())
    first, second = AbortedTxn(1, 0, 5, 6), AbortedTxn(2, 3, 9, 10)
    assert index.append([first]) == (encode_transactions([first]), 0)
    assert index.append([second]) == (encode_transactions([second]), ENTRY_BYTES)
    assert index.content == encode_transactions([first, second]) and len(index) == 2
    index.unload()
    third = AbortedTxn(2, 10, 12, 13)
    assert index.append([third]) == (encode_transactions([third]), 2 * ENTRY_BYTES)
    assert index.content is None, "what is before it stands in the file alone"


def test_a_file_stays_in_memory_while_it_is_small() -> None:
    index = TxnIndex(ENTRY_BYTES)
    index.install(KAFKAS_ENTRY + KAFKAS_ENTRY)
    assert index.content is None, "read while it grew"
    index.install(KAFKAS_ENTRY)
    assert index.content == KAFKAS_ENTRY
    many = MAX_CACHED_BYTES // ENTRY_BYTES + 1
    index.append(AbortedTxn(1, at, at, at) for at in range(33, 33 + many))
    assert index.content is None and len(index) == many + 1
    index.install(bytes(index.size_bytes))
    assert index.content is None
