"""Sets of characters, as ranges of code points.

Pure. Invariant: ranges are in order, and neither overlap nor touch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

LAST = 0x10FFFF
_SIGNS_IN_CLASS = frozenset("\\]^-[&~|")

Characters = tuple[tuple[int, int], ...]
"""Ranges with their first and last code point."""

ALL: Characters = ((0, LAST),)
UNIFORM: Characters = (
    (0x34000, 0xDFFFF), (0xE1000, 0xEFFFF), (0xF0000, 0xFFFFD), (0xFFFFE, 0xFFFFF), (0x100000, 0x10FFFD), (0x10FFFE, LAST),
)  # fmt: skip
"""Characters without a difference: not assigned, or for private use. Four of five are such."""
VARIED = (range(0x34000), range(0xE0000, 0xE1000))
"""All others."""


def of(text: str) -> Characters:
    """Return the set of the characters of `text`."""
    return union(*(((ord(character), ord(character)),) for character in text))


def union(*sets: Characters) -> Characters:
    ranges: list[tuple[int, int]] = []
    for first, last in sorted(each for one in sets for each in one):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
        else:
            ranges.append((first, last))
    return tuple(ranges)


def complement(characters: Characters) -> Characters:
    ranges, position = [], 0
    for first, last in characters:
        if position < first:
            ranges.append((position, first - 1))
        position = last + 1
    if position <= LAST:
        ranges.append((position, LAST))
    return tuple(ranges)


def intersection(one: Characters, other: Characters) -> Characters:
    return complement(union(complement(one), complement(other)))


def contains(characters: Characters, code: int) -> bool:
    return any(first <= code <= last for first, last in characters)


def where(holds: Callable[[str], bool]) -> Characters:
    """Return the set of the characters for which a function holds, which all of one of `UNIFORM` have in common."""
    singles = of_codes(code for part in VARIED for code in part if holds(chr(code)))
    return union(singles, tuple(part for part in UNIFORM if holds(chr(part[0]))))


def of_codes(codes: Iterable[int]) -> Characters:
    """Return the set of code points that come in order."""
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return tuple(ranges)


# --- without regard to case ---


def folded(characters: Characters, *, unicode: bool) -> Characters:
    """Return the set with the other case of its letters: of ASCII ones only, or of all, as Java does for ranges."""
    more = []
    for code, upper, lower in _cases(unicode=unicode):
        if contains(characters, upper) or contains(characters, lower):
            more.append((code, code))
    return union(characters, tuple(more))


def same_letter(code: int, *, unicode: bool) -> Characters:
    """Return a character with its other cases, as Java does for one that stands alone."""
    folds = {each: lower for each, _, lower in _cases(unicode=unicode)}
    wanted = folds.get(code, code)
    return union(((code, code),), *(((each, each),) for each, fold in folds.items() if fold == wanted))


@functools.cache
def _cases(*, unicode: bool) -> tuple[tuple[int, int, int], ...]:
    """Each character that has cases, with its upper case, and the lower case of that."""
    found = []
    for code in VARIED[0] if unicode else range(0x80):
        character = chr(code)
        upper = character.upper() if len(character.upper()) == 1 else character
        lower = upper.lower() if len(upper.lower()) == 1 else upper
        if upper != character or lower != character:
            found.append((code, ord(upper), ord(lower)))
    return tuple(found)


# --- as text ---


def as_class(characters: Characters) -> str:
    """Return the set as a part of a pattern of Python that matches one character."""
    if not characters:
        return r"(?!)"
    if characters[0][0] == 0 and characters[-1][1] == LAST:
        return f"[^{_ranges_text(complement(characters))}]" if characters != ALL else r"[\x00-\U0010ffff]"
    return f"[{_ranges_text(characters)}]"


def _ranges_text(characters: Characters) -> str:
    return "".join(_code_text(first) + (f"-{_code_text(last)}" if last > first else "") for first, last in characters)


def _code_text(code: int) -> str:
    if 0x20 < code < 0x7F and chr(code) not in _SIGNS_IN_CLASS:
        return chr(code)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
