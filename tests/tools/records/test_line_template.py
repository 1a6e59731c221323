"""The line of a record: formats of the user, for a terminal, for a file, and as bytes."""

from __future__ import annotations

import pytest

from tools.records.line_template import LineTemplate
from tools.records.line_text import LineText
from tools.records.record_view import RecordView

RECORD = RecordView("orders", 2, 7, 1_700_000_000_000, b"k1", b"caf\xc3\xa9", (("trace", b"a"), ("empty", None)))
BINARY = RecordView("orders", 0, 0, -1, None, b"\xff\x00", ())
HOSTILE = RecordView(
    "orders", 0, 0, 1_700_000_000_123_456, b"k\n\x1b[2J", "v\n\t\r\x9b\u202e".encode(), (("h\n\x07", b"\x1b"),)
)
NO_HEADERS = RecordView("orders", 0, 0, 0, b"", None, unreadable_name=r"h\xff")
FILE, TERMINAL, RAW = LineText(), LineText(is_terminal=True), LineText(is_raw=True, is_terminal=True)


def made(template: str, record: RecordView = RECORD, texts: LineText = FILE) -> str | bytes:
    return LineTemplate.parse(template).line(texts)(record)


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("%v", "café\n"),
        ("%s", "café\n"),
        ("%t-%p@%o %k", "orders-2@7 k1\n"),
        (r"%D\t%T\n%%", "2023-11-14T22:13:20.000Z\t1700000000000\n%\n"),
        ("%h %S %K", "trace=a,empty=null 5 2\n"),
        # kcat: what ends in a control character has its end
        (r"%k: %s\n", "k1: café\n"),
        (r"%s\r\n", "café\r\n"),
        (r"%s\0", "café\0"),
        ("%s\n", "café\n"),
        (r"\x41\101\0101\q\\", "AeAq\\\n"),
        (r"\xc3\xa9", "é\n"),
        ("", "\n"),
    ],
)
def test_a_format_makes_the_line(template: str, line: str) -> None:
    assert made(template) == line


def test_what_is_no_text_is_escaped_and_what_is_missing_is_null() -> None:
    assert made("%k %v %D|", BINARY) == "null \\xff\x00 |\n"
    assert made("%K %S", BINARY) == "-1 2\n"
    assert made("%s %S %h", NO_HEADERS) == "null -1 (unreadable, a name is no UTF-8: h\\xff)\n"


def test_a_terminal_gets_nothing_that_it_obeys() -> None:
    """A value keeps its lines; what the user has given stays as it is."""
    assert made(r"\x1b[1m%k %v %h\t%D", HOSTILE, TERMINAL) == (
        "\x1b[1mk\\n\\x1b[2J v\n\t\\r\\x9b\\u202e h\\n\\x07=\\x1b\t1700000000123456 (beyond the calendar)\n"
    )
    assert made("%v", HOSTILE) == "v\n\t\r\x9b\u202e\n", "a file gets it as it is"


def test_raw_is_the_bytes() -> None:
    assert made("%k %v", HOSTILE, RAW) == b"k\n\x1b[2J v\n\t\r\xc2\x9b\xe2\x80\xae\n"
    assert made(r"%R%s\xff\0", BINARY, RAW) == b"\x00\x00\x00\x02\xff\x00\xff\x00"
    assert made("%R", NO_HEADERS, RAW) == b"\xff\xff\xff\xff\n"


@pytest.mark.parametrize("template", ["%q", "%"])
def test_an_unknown_field_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=f"{template} is no field"):
        LineTemplate.parse(template)


def test_bytes_are_no_text() -> None:
    with pytest.raises(ValueError, match="goes with --raw"):
        made("%R")
