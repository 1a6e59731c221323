"""The characters of a pattern of Java, one by one, and the escapes among them.

Pure. Rules: a text between \\Q and \\E is read as if each sign in it had a backslash. With the flag x, white space and
comments do not count, in character classes neither.
Source: OpenJDK java.util.regex.Pattern (RemoveQEQuoting, peek, escape, o, x, u, c, N, family).
"""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass
from typing import Final

from config.java_patterns import properties
from config.java_patterns.characters import LAST, Characters, complement

_SIMPLE: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_SETS: Final = {
    "d": properties.DIGITS, "h": properties.HORIZONTAL, "s": properties.SPACE, "v": properties.VERTICAL, "w": properties.WORD,
}  # fmt: skip
_SPACE: Final = " \t\n\x0b\f\r"
_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"


class InvalidPatternError(ValueError):
    """A text is no regular expression of Java."""


class UnsupportedPatternError(ValueError):
    """Java takes a pattern, and here is nothing that does the same."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags i, u, m, s, d and x that hold at a place of a pattern."""

    ignores_case: bool = False
    is_unicode_case: bool = False
    is_multiline: bool = False
    dot_is_all: bool = False
    is_unix: bool = False
    skips_space: bool = False


class PatternText:
    """A pattern, and the position that was read up to. `skips_space` is the flag x."""

    def __init__(self, pattern: str) -> None:
        self.text = _unquoted(pattern)
        self.position = 0
        self.skips_space = False

    def peek(self) -> str:
        """Return the next character that counts, empty at the end."""
        if self.skips_space:
            self._skip()
        return self.text[self.position : self.position + 1]

    def take(self) -> str:
        """Return the next character that counts, and go behind it."""
        character = self.peek()
        self.position += 1
        return character

    def take_raw(self) -> str:
        """Return the next character, whether it counts or not, and go behind it."""
        character = self.text[self.position : self.position + 1]
        self.position += 1
        return character

    def has(self, text: str) -> bool:
        """Return whether `text` comes next, and go behind it then."""
        self.peek()
        is_next = self.text.startswith(text, self.position)
        self.position += len(text) if is_next else 0
        return is_next

    def until(self, end: str, what: str) -> str:
        """Return what comes before `end`, and go behind it. Raises InvalidPatternError."""
        found = self.text.find(end, self.position)
        if found < 0:
            raise InvalidPatternError(f"{what} has no end")
        text = self.text[self.position : found]
        self.position = found + len(end)
        return text

    def _skip(self) -> None:
        while (character := self.text[self.position : self.position + 1]) and character in _SPACE + "#":
            self.position += 1
            while character == "#" and self.text[self.position : self.position + 1] not in _LINE_ENDS:
                self.position += 1


def _unquoted(pattern: str) -> str:
    """Return the pattern with backslashes in place of quotation."""
    parts, position = list[str](), 0
    while position < len(pattern):
        if pattern.startswith("\\Q", position):
            end = pattern.find("\\E", position + 2)
            end = len(pattern) if end < 0 else end
            parts += map(_escaped, pattern[position + 2 : end])
            position = end + 2
        else:
            length = 2 if pattern[position] == "\\" else 1
            parts.append(pattern[position : position + length])
            position += length
    return "".join(parts)


def _escaped(character: str) -> str:
    if character in string.digits:
        return f"\\x3{character}"
    return f"\\{character}" if character.isascii() and not character.isalpha() else character


# --- escapes ---


def read_escape(source: PatternText, flags: Flags) -> str | Characters:
    """Return the character or the set that an escape stands for; the backslash was read. Raises InvalidPatternError,
    UnsupportedPatternError."""
    sign = source.take_raw()
    if sign in _SETS:
        return _SETS[sign]
    if sign and sign.lower() in _SETS:
        return complement(_SETS[sign.lower()])
    if sign in ("p", "P"):
        found = _property(source, ignores_case=flags.ignores_case)
        return found if sign == "p" else complement(found)
    return _character(source, sign)


def _character(source: PatternText, sign: str) -> str:
    if sign in _SIMPLE:
        return _SIMPLE[sign]
    if sign == "0":
        return _octal(source)
    if sign == "x":
        return _hexadecimal(source)
    if sign == "u":
        return _unicode(source)
    if sign == "c":
        controlled = source.take_raw()
        if not controlled:
            raise InvalidPatternError("\\c has no character behind it")
        return chr(ord(controlled) ^ 64)
    if sign == "N":
        return _named(source)
    if not sign:
        raise InvalidPatternError("nothing follows the last backslash")
    if sign.isascii() and sign.isalnum():
        raise InvalidPatternError(f"\\{sign} is no escape")
    return sign


def _digits(source: PatternText, length: int, kind: str) -> int:
    text = source.text[source.position : source.position + length]
    if len(text) < length or not set(text) <= set(string.hexdigits):
        raise InvalidPatternError(f"\\{kind} needs hexadecimal digits")
    source.position += length
    return int(text, 16)


def _octal(source: PatternText) -> str:
    text = source.text[source.position :]
    count = 0
    while count < 3 and text[count : count + 1] in tuple("01234567"):
        count += 1
    if count == 0:
        raise InvalidPatternError("\\0 needs octal digits")
    if count == 3 and text[0] > "3":
        count = 2
    source.position += count
    return chr(int(text[:count], 8))


def _hexadecimal(source: PatternText) -> str:
    if not source.text.startswith("{", source.position):
        return chr(_digits(source, 2, "x"))
    source.position += 1
    text = source.until("}", "\\x{")
    if not text or not set(text) <= set(string.hexdigits) or int(text, 16) > LAST:
        raise InvalidPatternError(f"\\x{{{text}}} is no character")
    return chr(int(text, 16))


def _unicode(source: PatternText) -> str:
    code = _digits(source, 4, "u")
    if 0xD800 <= code < 0xDC00 and source.text.startswith("\\u", source.position):
        before = source.position
        source.position += 2
        low = _digits(source, 4, "u")
        if 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)
        source.position = before
    return chr(code)


def _named(source: PatternText) -> str:
    if source.take_raw() != "{":
        raise InvalidPatternError("\\N needs the name of a character in braces")
    name = source.until("}", "\\N{")
    try:
        return unicodedata.lookup(name)
    except KeyError:
        raise InvalidPatternError(f"{name} is no name of a character") from None


def _property(source: PatternText, *, ignores_case: bool) -> Characters:
    first = source.take()
    name = source.until("}", "\\p{") if first == "{" else first
    if not name:
        raise InvalidPatternError("\\p has no name")
    try:
        return properties.property_set(name, ignores_case=ignores_case)
    except properties.UnknownPropertyError as error:
        raise UnsupportedPatternError(str(error)) from None
