"""Times, sizes, counts and foreign text, as commands show them."""

from __future__ import annotations

import json

import pytest

from runtime.texts import bar, calendar_text, count_text, size_text, time_text, visible, visible_json


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-5, "1969-12-31T23:59:59.995Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (-62_135_596_800_001, "-62135596800001 (beyond the calendar)"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 (beyond the calendar)"),
        (1_700_000_000_123_456, "1700000000123456 (beyond the calendar)"),
        (1_700_000_000_123_456_789, "1700000000123456789 (beyond the calendar)"),
        (2**63 - 1, "9223372036854775807 (beyond the calendar)"),
        (-(2**63), "-9223372036854775808 (beyond the calendar)"),
    ],
)
def test_a_time_is_that_time_or_its_number(timestamp_ms: int, text: str) -> None:
    assert time_text(timestamp_ms) == text
    assert calendar_text(timestamp_ms) == (None if "beyond" in text else text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (80_750_000, "80.8 MB"), (268_435_456, "268 MB"), (999_960, "1.0 MB"),
     (1_500_000_000, "1.5 GB"), (2**63 - 1, "9.2 EB")],
)  # fmt: skip
def test_sizes_have_decimal_units(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_one_is_singular() -> None:
    assert [count_text(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert [count_text(number, "record", "is", "are") for number in (1, 2)] == ["1 record is", "2 records are"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("café 日本 👩‍👩‍👧 می‌خواهم", "café 日本 👩‍👩‍👧 می‌خواهم"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x00\x07\x1b[2J\x7f", r"\x00\x07\x1b[2J\x7f"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("\u202egnp.exe\u2066\u200f", r"\u202egnp.exe\u2066\u200f"),
        ("a\u2028b\u200bc\ufeff", r"a\u2028b\u200bc\ufeff"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    document = visible_json(json.dumps(text, ensure_ascii=False))
    assert document.encode()
    assert visible(document) == document
    assert json.loads(document) == text


def test_contents_may_keep_their_lines() -> None:
    assert visible("a\n\tb\r\x1b", keeps_lines=True) == "a\n\tb\\r\\x1b"


@pytest.mark.parametrize(
    ("done", "total", "expected"),
    [
        (0, 10, f"[{' ' * 30}]   0%"),
        (5, 10, f"[{'=' * 15}{' ' * 15}]  50%"),
        (10, 10, f"[{'=' * 30}] 100%"),
        (0, 0, f"[{'=' * 30}] 100%"),
    ],
)
def test_a_bar_shows_the_share(done: int, total: int, expected: str) -> None:
    assert bar(done, total) == expected
