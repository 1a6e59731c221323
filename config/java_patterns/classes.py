"""Character classes of Java, with classes in classes, unions and intersections.

Pure. `[a-z&&[^aeiou]]` has the letters that are in both; `[a-c[x-z]]` those of either. A circumflex negates all of its class,
intersections included. What is right of `&&` goes up to the end of the class, unless it is a class in brackets.
Source: OpenJDK java.util.regex.Pattern (clazz, range, bitsOrSingle).
"""

from __future__ import annotations

from config.java_patterns.characters import Characters, complement, folded, intersection, same_letter, union
from config.java_patterns.reading import Flags, InvalidPatternError, PatternText, UnsupportedPatternError, read_escape


def read_class(source: PatternText, flags: Flags) -> Characters:
    """Return the set of a class; its opening bracket was read. Raises InvalidPatternError, UnsupportedPatternError."""
    is_negated = source.text.startswith("^", source.position)
    source.position += is_negated
    found = _members(source, flags)
    source.take()
    return complement(found) if is_negated else found


def _members(source: PatternText, flags: Flags) -> Characters:
    """Return the set of what comes before the closing bracket."""
    found: Characters | None = None
    while (sign := source.peek()) != "]" or found is None:
        if not sign:
            raise InvalidPatternError("a character class has no end")
        if source.has("&&"):
            if found is None:
                raise UnsupportedPatternError("a character class begins with an intersection")
            right = _right_side(source, flags)
            found = intersection(found, right)
            if source.peek() != "]" and not source.text.startswith("&&", source.position):
                raise UnsupportedPatternError("a character class goes on behind an intersection")
        elif source.has("["):
            found = union(found or (), read_class(source, flags))
        else:
            found = union(found or (), _range(source, flags))
    return found


def _right_side(source: PatternText, flags: Flags) -> Characters:
    found: Characters | None = None
    while source.peek() not in ("]", "&", ""):
        part = read_class(source, flags) if source.has("[") else _members(source, flags)
        found = part if found is None else union(found, part)
    if found is None:
        raise UnsupportedPatternError("an intersection has no right side")
    return found


def _range(source: PatternText, flags: Flags) -> Characters:
    first = _member(source, flags)
    if not isinstance(first, str):
        return first
    if source.peek() == "-" and source.text[source.position + 1 : source.position + 2] not in ("[", "]", ""):
        source.take()
        last = _member(source, flags)
        if not isinstance(last, str) or last < first:
            raise InvalidPatternError("a range of a character class ends before it begins")
        characters: Characters = ((ord(first), ord(last)),)
        return folded(characters, unicode=flags.is_unicode_case) if flags.ignores_case else characters
    if flags.ignores_case:
        return same_letter(ord(first), unicode=flags.is_unicode_case)
    return ((ord(first), ord(first)),)


def _member(source: PatternText, flags: Flags) -> str | Characters:
    character = source.take()
    return read_escape(source, flags) if character == "\\" else character
