"""The names in \\p{...}, and the sets of characters that they stand for.

There are: general categories (L, Lu, IsLu, gc=Lu), POSIX classes of ASCII characters (Alpha), methods of Java's Character
(javaLowerCase), binary properties (IsAlphabetic), scripts (IsLatin, script=Latin) and some blocks (InGreek).

Pure. Source: OpenJDK java.util.regex.CharPredicates, Character.UnicodeScript, Character.UnicodeBlock; Python's unicodedata.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from typing import Final

from config.java_patterns.characters import (
    LAST,
    UNIFORM,
    VARIED,
    Characters,
    complement,
    intersection,
    of_codes,
    union,
    where,
)
from config.java_patterns.unicode_tables import PROPERTIES, SCRIPTS

DIGITS: Final[Characters] = ((0x30, 0x39),)
_UPPER: Final[Characters] = ((0x41, 0x5A),)
_LOWER: Final[Characters] = ((0x61, 0x7A),)
_GRAPH: Final[Characters] = ((0x21, 0x7E),)
WORD: Final = union(DIGITS, _UPPER, _LOWER, ((0x5F, 0x5F),))
SPACE: Final[Characters] = ((0x09, 0x0D), (0x20, 0x20))
HORIZONTAL: Final = of_codes((0x09, 0x20, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))
VERTICAL: Final[Characters] = ((0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
_POSIX: Final[dict[str, Characters]] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ((0, 0x7F),),
    "Alpha": union(_UPPER, _LOWER),
    "Digit": DIGITS,
    "Alnum": union(DIGITS, _UPPER, _LOWER),
    "Punct": intersection(_GRAPH, complement(union(DIGITS, _UPPER, _LOWER))),
    "Graph": _GRAPH,
    "Print": ((0x20, 0x7E),),
    "Blank": ((0x09, 0x09), (0x20, 0x20)),
    "Cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
    "Space": SPACE,
}
_GROUPS: Final = {"LC": ("Lu", "Ll", "Lt"), "LD": ("L", "Nd")}
_BINARY: Final = {
    "ALPHABETIC": "Alphabetic", "IDEOGRAPHIC": "Ideographic", "LETTER": "L", "LOWERCASE": "javaLowerCase",
    "UPPERCASE": "javaUpperCase", "TITLECASE": "Lt", "WHITE_SPACE": "White_Space", "WHITESPACE": "White_Space",
    "CONTROL": "Cc", "PUNCTUATION": "P", "ASSIGNED": "javaDefined", "HEX_DIGIT": "Hex_Digit", "HEXDIGIT": "Hex_Digit",
    "JOIN_CONTROL": "Join_Control", "JOINCONTROL": "Join_Control", "WORD": "Word",
    "ALPHA": "Alphabetic", "LOWER": "javaLowerCase", "UPPER": "javaUpperCase", "SPACE": "White_Space", "PUNCT": "P",
    "XDIGIT": "Hex_Digit", "CNTRL": "Cc", "DIGIT": "Nd", "ALNUM": "Alnum", "BLANK": "Blank", "GRAPH": "Graph", "PRINT": "Print",
    "NONCHARACTER_CODE_POINT": "Noncharacter", "NONCHARACTERCODEPOINT": "Noncharacter",
}  # fmt: skip
_BLOCKS: Final = {
    "Basic Latin": (0, 0x7F), "Latin-1 Supplement": (0x80, 0xFF), "Latin Extended-A": (0x100, 0x17F),
    "Latin Extended-B": (0x180, 0x24F), "Greek": (0x370, 0x3FF), "Greek and Coptic": (0x370, 0x3FF),
    "Cyrillic": (0x400, 0x4FF), "Armenian": (0x530, 0x58F), "Hebrew": (0x590, 0x5FF), "Arabic": (0x600, 0x6FF),
    "Devanagari": (0x900, 0x97F), "Thai": (0xE00, 0xE7F), "General Punctuation": (0x2000, 0x206F),
    "Hiragana": (0x3040, 0x309F), "Katakana": (0x30A0, 0x30FF), "CJK Unified Ideographs": (0x4E00, 0x9FFF),
    "Hangul Syllables": (0xAC00, 0xD7AF),
}  # fmt: skip
_BLOCKS_BY_NAME: Final = {
    form.upper(): ((first, last),)
    for name, (first, last) in _BLOCKS.items()
    for form in (name, name.replace(" ", ""), name.replace(" ", "_").replace("-", "_"))
}


class UnknownPropertyError(ValueError):
    """There is no such name, or it is one whose set is not known here."""


def property_set(name: str, *, ignores_case: bool = False) -> Characters:
    """Return the set of a name between the braces of \\p{...}. `ignores_case`: Lower, Upper, Lu, Ll and Lt are each any of
    them. Raises UnknownPropertyError."""
    key, separator, value = name.partition("=")
    if separator:
        return _of_key(key.lower(), value, name, ignores_case=ignores_case)
    if name.startswith("In"):
        return _block(name[2:], name)
    if name.startswith("Is"):
        return _named_is(name[2:], ignores_case=ignores_case)
    return _named(name, ignores_case=ignores_case)


def _of_key(key: str, value: str, name: str, *, ignores_case: bool) -> Characters:
    if key in ("sc", "script"):
        return _script(value, name)
    if key in ("blk", "block"):
        return _block(value, name)
    if key in ("gc", "general_category"):
        return _category(value, name, ignores_case=ignores_case)
    raise UnknownPropertyError(f"{name} is no property")


def _named_is(name: str, *, ignores_case: bool) -> Characters:
    binary = _BINARY.get(name.upper())
    if binary is not None:
        if ignores_case and binary in ("javaLowerCase", "javaUpperCase", "Lt"):
            return union(_method("javaLowerCase"), _method("javaUpperCase"), _categories()["Lt"])
        return _method(binary) if binary.startswith("java") else _property(binary)
    try:
        return _named(name, ignores_case=ignores_case)
    except UnknownPropertyError:
        return _script(name, f"Is{name}")


def _named(name: str, *, ignores_case: bool) -> Characters:
    if name in _POSIX:
        return union(_LOWER, _UPPER) if ignores_case and name in ("Lower", "Upper") else _POSIX[name]
    if name.startswith("java"):
        if ignores_case and name in ("javaLowerCase", "javaUpperCase", "javaTitleCase"):
            return union(_method("javaLowerCase"), _method("javaUpperCase"), _categories()["Lt"])
        return _method(name)
    return _category(name, name, ignores_case=ignores_case)


def _category(value: str, name: str, *, ignores_case: bool) -> Characters:
    if value in ("L1", "all"):
        return ((0, 0xFF if value == "L1" else LAST),)
    if ignores_case and value in ("Lu", "Ll", "Lt"):
        value = "LC"
    return union(*(_property(each, name) for each in _GROUPS.get(value, (value,))))


def _property(value: str, name: str = "") -> Characters:
    if value in PROPERTIES:
        return _decoded(PROPERTIES[value])
    if value in _DERIVED:
        return _DERIVED[value]()
    found = [ranges for category, ranges in _categories().items() if category == value or category[0] == value]
    if not found:
        raise UnknownPropertyError(f"{name or value} is no property that is known here")
    return union(*found)


def _of(*names: str) -> Callable[[], Characters]:
    return lambda: union(*(_property(name) for name in names))


def _graph() -> Characters:
    return complement(union(*(_property(name) for name in ("Z", "Cc", "Cs", "Cn"))))


def _blank() -> Characters:
    return union(_property("Zs"), ((0x09, 0x09),))


_JOINERS: Final[Characters] = ((0x200C, 0x200D),)
_WIDE_DIGITS: Final[Characters] = ((0xFF10, 0xFF19), (0xFF21, 0xFF26), (0xFF41, 0xFF46))
_DERIVED: Final[dict[str, Callable[[], Characters]]] = {
    "White_Space": lambda: union(_property("Z"), ((0x09, 0x0D), (0x85, 0x85))),
    "Hex_Digit": lambda: union(
        _property("Nd"), _POSIX["XDigit"], _WIDE_DIGITS
    ),  # with the digits of all scripts, in Java
    "Join_Control": lambda: _JOINERS,
    "Noncharacter": lambda: union(
        ((0xFDD0, 0xFDEF),), tuple((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, LAST, 0x10000))
    ),
    "Word": lambda: union(*(_property(name) for name in ("Alphabetic", "M", "Nd", "Pc")), _JOINERS),
    "Alnum": _of("Alphabetic", "Nd"),
    "Blank": _blank,
    "Graph": _graph,
    "Print": lambda: intersection(union(_graph(), _blank()), complement(_property("Cc"))),
}


def _script(value: str, name: str) -> Characters:
    table = SCRIPTS.get(value.upper())
    if table is None:
        raise UnknownPropertyError(f"{name} is no property that is known here")
    return _decoded(table)


def _block(value: str, name: str) -> Characters:
    block = _BLOCKS_BY_NAME.get(value.upper())
    if block is None:
        raise UnknownPropertyError(f"{name} is no block that is known here")
    return block


# --- methods of Java's Character ---


@functools.cache
def _method(name: str) -> Characters:
    make = _METHODS.get(name)
    if make is None:
        raise UnknownPropertyError(f"{name} is no property that is known here")
    return make()


_IGNORABLE: Final[Characters] = ((0, 0x08), (0x0E, 0x1B), (0x7F, 0x9F))
_METHODS: Final[dict[str, Callable[[], Characters]]] = {
    "javaLowerCase": lambda: where(str.islower),
    "javaUpperCase": lambda: where(str.isupper),
    "javaTitleCase": _of("Lt"),
    "javaAlphabetic": _of("Alphabetic"),
    "javaIdeographic": _of("Ideographic"),
    "javaDigit": _of("Nd"),
    "javaLetter": _of("L"),
    "javaLetterOrDigit": _of("L", "Nd"),
    "javaDefined": lambda: complement(_property("Cn")),
    "javaSpaceChar": _of("Z"),
    "javaWhitespace": lambda: union(
        intersection(_property("Z"), complement(of_codes((0xA0, 0x2007, 0x202F)))), ((0x09, 0x0D), (0x1C, 0x1F))
    ),
    "javaISOControl": _of("Cc"),
    "javaMirrored": lambda: where(lambda character: unicodedata.mirrored(character) == 1),
    "javaIdentifierIgnorable": lambda: union(_property("Cf"), _IGNORABLE),
    "javaJavaIdentifierStart": _of("L", "Nl", "Sc", "Pc"),
    "javaJavaIdentifierPart": lambda: union(
        *(_property(name) for name in ("L", "Nl", "Sc", "Pc", "Nd", "Mc", "Mn", "Cf")), _IGNORABLE
    ),
}


# --- tables ---


@functools.cache
def _categories() -> dict[str, Characters]:
    """All general categories, by one walk over all characters."""
    codes: dict[str, list[int]] = {}
    category = unicodedata.category
    for codes_of_part in VARIED:
        for code in codes_of_part:
            codes.setdefault(category(chr(code)), []).append(code)
    found = {name: of_codes(each) for name, each in codes.items()}
    for part in UNIFORM:
        name = category(chr(part[0]))
        found[name] = union(found.get(name, ()), (part,))
    return found


def _decoded(table: str) -> Characters:
    """Ranges as `unicode_tables` has them."""
    ranges, last = [], 0
    for text in table.split():
        distance, _, length = text.partition("+")
        first = last + int(distance, 36)
        last = first + int(length or "0", 36)
        ranges.append((first, last))
    return tuple(ranges)
