"""How times, sizes, counts and foreign text are shown to people: one form for all commands. Pure.

Rules: a time that the calendar does not have (it ends with the year 9999) is shown as its number, never as another time. Text
that others have written is shown without the characters that move a cursor, end a line, turn the direction of the text or are
not seen at all: terminals take them as commands.
Source: ISO 8601; Unicode Standard Annex 9 (bidirectional text), ECMA-48 (control sequences).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

BEYOND_CALENDAR = "beyond the calendar"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  all times are UTC
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_BAR_CHARACTERS = 30
_UNSEEN = (
    "\x7f-\x9f"  # DEL and the C1 controls: 0x9b begins a control sequence, as ESC [ does
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # the direction of text
    "\u2028\u2029"  # ends of lines
    "\u200b\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # no width; not the joiners, which scripts need
    "\ud800-\udfff"  # halves of surrogate pairs: no encoding has them
)
_CONTROL = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_CONTROL_BUT_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_CONTROL_IN_JSON = re.compile(f"[{_UNSEEN}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def calendar_text(timestamp_ms: int) -> str | None:
    """Return milliseconds since 1970 as `2026-01-31T12:00:00.000Z`; None where the calendar has no such time."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def time_text(timestamp_ms: int) -> str:
    """Return milliseconds since 1970 as a time in UTC, or their number and that it is beyond the calendar."""
    return calendar_text(timestamp_ms) or f"{timestamp_ms} ({BEYOND_CALENDAR})"


def size_text(size_bytes: float) -> str:
    """Return a number of bytes in decimal units: 1,500,000,000 are 1.5 GB."""
    size, unit = float(size_bytes), 0
    while unit + 1 < len(_UNITS) and round(size, 1 if size < 100 else 0) >= 1000:
        size /= 1000
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def count_text(number: int, noun: str, one_does: str = "", many_do: str = "") -> str:
    """Return `1 record`, `2 records`; with verbs `1 record is`, `2 records are`."""
    return f"{number} {noun} {one_does}".rstrip() if number == 1 else f"{number} {noun}s {many_do}".rstrip()


def bar(done: float, total: float) -> str:
    """Return how much of a total is done, such as `[=====     ]  50%`."""
    share = min(1.0, done / total) if total else 1.0
    return f"[{'=' * int(share * _BAR_CHARACTERS):{_BAR_CHARACTERS}}] {int(share * 100):3d}%"


def visible(text: str, *, keeps_lines: bool = False) -> str:
    """Return text without characters that a terminal obeys or does not show: `\\n`, `\\x1b`, `\\u202e` stand for them. With
    `keeps_lines` line feeds and tabs stay."""
    return (_CONTROL_BUT_LINES if keeps_lines else _CONTROL).sub(_escape, text)


def visible_json(document: str) -> str:
    """Return a JSON text with the same meaning in which such characters are escaped as JSON escapes them."""
    return _CONTROL_IN_JSON.sub(_escape_in_json, document)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    if number < 0x100:
        return _SHORT.get(character) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
