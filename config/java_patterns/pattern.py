"""From a regular expression of Java to one of Python: `compile_java`.

Everything is written out: characters and classes as sets, so that no flag of Python is needed, and anchors as Java has them.
(`$` is also before the last line end, which may be \\r\\n or one of Unicode's; \\b knows the letters of all alphabets, as in
Java up to 18, and takes a combining mark for a part of a word.)

Pure. Rules: InvalidPatternError where Java refuses a pattern; UnsupportedPatternError for what Python's expressions lack, and
for forms that are not written on purpose: \\G, \\X, \\b{g}, the flags U and c, references to a group within itself, and
expressions of no certain length that look behind.
Invariant: what is accepted matches as in Java 17, which `tests/config/java_patterns/java-17.json` has recorded.
Source: OpenJDK java.util.regex.Pattern (expr, sequence, group0, closure, escape, ref).
"""

from __future__ import annotations

import functools
import re
import string
from dataclasses import replace
from typing import Final

from config.java_patterns import properties
from config.java_patterns.characters import as_class, complement, of, same_letter, union
from config.java_patterns.classes import read_class
from config.java_patterns.reading import Flags, InvalidPatternError, PatternText, UnsupportedPatternError, read_escape

_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_ANY_LINE_END: Final = r"(?:\r\n|[\n\r\x85\u2028\u2029])"
_LINE_BREAK: Final = r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
_NEVER: Final = r"(?!)"
_FLAGS: Final = {
    "i": "ignores_case", "u": "is_unicode_case", "m": "is_multiline", "s": "dot_is_all", "d": "is_unix", "x": "skips_space",
}  # fmt: skip
_REPEAT_MAX: Final = 0x7FFFFFFF
_QUANTIFIERS: Final = "?*+"


@functools.lru_cache(maxsize=256)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Return the pattern for `fullmatch`, which is Java's `matches`, and for `search`, which is its `find`. Groups have Java's
    numbers and names. Raises InvalidPatternError, UnsupportedPatternError."""
    translated = python_pattern(pattern)
    try:
        return re.compile(translated)
    except (re.error, OverflowError) as error:
        raise UnsupportedPatternError(f"it cannot be translated: {error}") from None


def python_pattern(pattern: str) -> str:
    """Return a pattern of Java as one of Python. Raises InvalidPatternError, UnsupportedPatternError."""
    return _Translator(pattern).translated()


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._source = PatternText(pattern)
        self._flags = Flags()
        self._opened = 0
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}
        self._missing: set[int] = set()  # referred to before they were opened

    def translated(self) -> str:
        text = "|".join(self._alternatives())
        if self._source.peek():
            raise InvalidPatternError("a closing parenthesis has no opening one")
        if any(number <= self._opened for number in self._missing):
            raise UnsupportedPatternError("a group is referred to before it")
        return text

    # --- sequences ---

    def _alternatives(self) -> list[str]:
        """Read up to a closing parenthesis or the end."""
        found = [self._sequence()]
        while self._source.has("|"):
            found.append(self._sequence())
        return found

    def _sequence(self) -> str:
        parts = []
        while (sign := self._source.peek()) not in ("", "|", ")"):
            if sign in _QUANTIFIERS:
                raise InvalidPatternError(f"{sign} has nothing to repeat")
            if sign == "{":
                raise UnsupportedPatternError("a quantifier follows another one, or nothing")
            self._source.take()
            part = self._part(sign)
            if part is not None:
                parts.append(part + self._quantifier())
        return "".join(parts)

    def _part(self, sign: str) -> str | None:
        """Return what one sign begins, as something that can be repeated; None for flags."""
        if sign == "(":
            return self._group()
        if sign == "[":
            return as_class(read_class(self._source, self._flags))
        if sign == "\\":
            return self._escape()
        if sign == "^":
            return self._line_start()
        if sign == "$":
            return f"(?:{self._line_end(is_multiline=self._flags.is_multiline)})"
        if sign == ".":
            ends = "" if self._flags.dot_is_all else "\n" if self._flags.is_unix else _LINE_ENDS
            return as_class(complement(of(ends)))
        return self._literal(sign)

    def _literal(self, character: str) -> str:
        if not self._flags.ignores_case:
            return re.escape(character)
        return as_class(same_letter(ord(character), unicode=self._flags.is_unicode_case))

    def _quantifier(self) -> str:
        sign = self._source.peek()
        if sign in tuple(_QUANTIFIERS):
            self._source.take()
        elif sign == "{":
            self._source.take()
            sign = self._counts()
        else:
            return ""
        mode = self._source.peek()
        if mode in ("?", "+"):
            return sign + self._source.take()
        return sign

    def _counts(self) -> str:
        """Return {n}, {n,} or {n,m}; the brace was read."""
        least = self._count()
        if least is None:
            raise InvalidPatternError("a brace begins no repetition")
        most: int | None = least
        text = f"{{{least}}}"
        if self._source.has(","):
            most = self._count()
            text = f"{{{least},{'' if most is None else most}}}"
        if self._source.take_raw() != "}":
            raise InvalidPatternError("a repetition has no closing brace")
        if (most is not None and most < least) or least > _REPEAT_MAX or (most or 0) > _REPEAT_MAX:
            raise InvalidPatternError("a repetition has numbers out of range")
        return text

    def _count(self) -> int | None:
        digits = ""
        while self._source.text[self._source.position : self._source.position + 1] in tuple(string.digits):
            digits += self._source.take_raw()
        return int(digits) if digits else None

    # --- anchors ---

    def _line_start(self) -> str:
        if not self._flags.is_multiline:
            return r"(?:\A)"
        if self._flags.is_unix:
            return r"(?:(?:\A|(?<=\n))(?!\Z))"
        # Not between \r and \n, and not at the end of the text.
        return r"(?:(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))(?!\Z))"

    def _line_end(self, *, is_multiline: bool) -> str:
        if self._flags.is_unix:
            return r"(?=\n)|\Z" if is_multiline else r"(?=\n?\Z)"
        if is_multiline:
            return r"(?<!\r)(?=\n)|(?=[\r\x85\u2028\u2029])|\Z"
        return r"(?<!\r)(?=\n\Z)|(?=(?:\r\n|[\r\x85\u2028\u2029])?\Z)"

    def _word_border(self) -> str:
        word = as_class(union(properties.property_set("javaLetterOrDigit"), properties.property_set("Mn"), of("_")))
        return f"(?<={word})(?!{word})|(?<!{word})(?={word})"

    # --- escapes ---

    def _escape(self) -> str:
        source = self._source
        sign = source.text[source.position : source.position + 1]
        if sign in ("b", "B", "A", "Z", "z", "R"):
            source.take_raw()
            if sign == "b" and source.text.startswith("{g", source.position):
                raise UnsupportedPatternError("\\b{g} is not supported")
            return self._anchor(sign)
        if sign in ("G", "X"):
            raise UnsupportedPatternError(f"\\{sign} is not supported")
        if sign == "k":
            source.take_raw()
            return self._named_reference()
        if sign and sign in "123456789":
            return self._reference()
        found = read_escape(source, self._flags)
        return self._literal(found) if isinstance(found, str) else as_class(found)

    def _anchor(self, sign: str) -> str:
        if sign == "A":
            return r"(?:\A)"
        if sign == "z":
            return r"(?:\Z)"
        if sign == "Z":
            return f"(?:{self._line_end(is_multiline=False)})"
        if sign == "R":
            return _LINE_BREAK
        border = self._word_border()
        return f"(?:{border})" if sign == "b" else f"(?!{border})"

    def _reference(self) -> str:
        source = self._source
        number = int(source.take_raw())
        while source.peek() in tuple(string.digits) and number * 10 + int(source.peek()) <= self._opened:
            number = number * 10 + int(source.take())
        if number > self._opened:
            self._missing.add(number)
            return _NEVER  # as in Java, if no such group follows
        return self._same_as(number)

    def _named_reference(self) -> str:
        if self._source.take_raw() != "<":
            raise InvalidPatternError("\\k needs the name of a group")
        name = self._source.until(">", "\\k<")
        if name not in self._names:
            raise InvalidPatternError(f"there is no group {name!r} before its reference")
        return self._same_as(self._names[name])

    def _same_as(self, number: int) -> str:
        if number not in self._closed:
            raise UnsupportedPatternError("a group is referred to within itself")
        if not self._flags.ignores_case:
            return f"(?:\\{number})"
        return f"(?i{'u' if self._flags.is_unicode_case else 'a'}:\\{number})"

    # --- groups ---

    def _group(self) -> str | None:
        source, before = self._source, self._flags
        if not source.has("?"):
            self._opened += 1
            return self._captured(self._opened, "(")
        found: str | None
        if source.has("<=") or source.has("<!"):
            found = self._lookbehind(source.text[source.position - 1])
        elif source.has("<"):
            found = self._named_group()
        else:
            sign = source.take_raw()
            if sign in (":", "=", "!", ">"):
                found = self._closed_group(f"(?{sign}")
            else:
                source.position -= 1
                self._read_flags()
                if source.has(")"):
                    return None  # they hold up to the end of the group around
                if not source.has(":"):
                    raise InvalidPatternError("a group begins with an unknown sign")
                found = self._closed_group("(?:")
        self._set_flags(before)
        return found

    def _captured(self, number: int, begin: str) -> str:
        before = self._flags
        text = self._closed_group(begin)
        self._closed.add(number)
        self._set_flags(before)
        return text

    def _closed_group(self, begin: str) -> str:
        text = "|".join(self._alternatives())
        if not self._source.has(")"):
            raise InvalidPatternError("a group has no end")
        return f"{begin}{text})"

    def _named_group(self) -> str:
        name = self._source.until(">", "the name of a group")
        is_name = name.isascii() and name.isalnum() and not name[:1].isdigit()
        if not is_name or name in self._names:
            raise InvalidPatternError(f"{name!r} cannot be the name of a group, or is that of another one")
        self._opened += 1
        number = self._names[name] = self._opened
        return self._captured(number, f"(?P<{name}>")

    def _lookbehind(self, sign: str) -> str:
        """Python needs one length, so that alternatives are looked for one by one."""
        alternatives = self._alternatives()
        if not self._source.has(")"):
            raise InvalidPatternError("a group has no end")
        if sign == "=":
            return "(?:" + "|".join(f"(?<={each})" for each in alternatives) + ")"
        return "(?:" + "".join(f"(?<!{each})" for each in alternatives) + ")"

    def _read_flags(self) -> None:
        """Read flags to set and, behind a minus sign, to unset."""
        source, is_set = self._source, True
        while True:
            sign = source.peek()
            if sign == "-" and is_set:
                is_set = False
            elif sign in _FLAGS:
                self._set_flags(replace(self._flags, **{_FLAGS[sign]: is_set}))
            elif sign in ("U", "c"):
                raise UnsupportedPatternError(f"the flag {sign} is not supported")
            else:
                return
            source.take()

    def _set_flags(self, flags: Flags) -> None:
        self._flags = flags
        self._source.skips_space = flags.skips_space
