"""Cursors, lists of partitions and progress: what goes on where, and what hostile texts do."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.messages.cursors import Cursor, CursorKind, InvalidCursor
from web.messages.partition_lists import parse_partitions, partitions_text
from web.messages.progress import PartitionRange, Progress

PLACE = st.integers(0, 2**63 - 1)


def packed(content: object) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(content).encode())).decode().rstrip("=")


@given(
    st.sampled_from(CursorKind),
    st.dictionaries(st.integers(0, 9_999), st.tuples(PLACE, PLACE), max_size=128),
    st.frozensets(st.integers(0, 9_999), max_size=50),
)
def test_a_cursor_says_what_was_put_in(
    kind: CursorKind, positions: dict[int, tuple[int, int]], done: frozenset[int]
) -> None:
    cursor = Cursor(kind, positions, done)
    assert Cursor.parse(cursor.text("about"), "about", kind) == cursor


def test_a_cursor_of_128_partitions_fits_in_an_address() -> None:
    positions = {each: (10**12 + each * 977, 10**12 + each * 1_009) for each in range(128)}
    cursor = Cursor(CursorKind.SEARCH, positions, frozenset(range(200, 9_000)))
    assert len(cursor.text("about")) < 4_000
    assert Cursor.parse(cursor.text("about"), "about", CursorKind.SEARCH) == cursor


@pytest.mark.parametrize(
    "text",
    [
        "", "?", "AAAA", "é", "x" * 9_000, packed([]), packed({}), packed({"k": "s"}), packed({"k": "s", "a": 0, "p": [[0]]}),
        packed({"k": "s", "a": 0, "p": [[0, -1, 2]]}), packed({"k": "s", "a": 0, "p": [[0, 2**70, 2]]}),
        packed({"k": "s", "a": 0, "d": "0-99999999"}), packed({"k": "s", "a": 0, "d": 7}), packed("x" * 1_000_000),
        Cursor(CursorKind.SEARCH).text("other"), Cursor(CursorKind.FOLLOW).text("about"),
    ],
)  # fmt: skip
def test_what_is_no_cursor(text: str) -> None:
    with pytest.raises(InvalidCursor):
        Cursor.parse(text, "about", CursorKind.SEARCH)


@given(st.sets(st.integers(0, 300)))
def test_lists_of_partitions(partitions: set[int]) -> None:
    text = partitions_text(partitions)
    assert (parse_partitions(text) if text else []) == sorted(partitions)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "0-999999", "²"])
def test_what_is_no_list_of_partitions(text: str) -> None:
    with pytest.raises(ValueError, match=r"partition|range"):
        parse_partitions(text)


def test_progress_tells_what_has_changed() -> None:
    progress = Progress([PartitionRange(0, 0, 100), PartitionRange(1, 50, 50)], 0)
    first = progress.changed()
    assert [(row["partition"], row["at"], row["is_done"]) for row in first] == [(0, 0, False), (1, 50, True)]
    assert progress.changed() == [] and progress.figures(0)["left_ms"] is None
    progress.ranges[0].pass_to(25)
    progress.bytes_read = 1_000
    figures = progress.figures(500)
    assert (figures["left_ms"], figures["bytes_per_second"]) == (1_500, 2_000)
    assert [row["at"] for row in progress.changed()] == [25]
    progress.ranges[0].pass_to(10)
    assert progress.changed() == []
    progress.ranges[0].pass_to(100)
    assert progress.is_done and progress.figures(600)["left_ms"] == 0
