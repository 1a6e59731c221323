"""From the name in a client's certificate to its principal: `ssl.principal.mapping.rules`.

Pure. A rule is DEFAULT, which takes the whole name, or `RULE:pattern/replacement/` with an L or U behind it for lower or upper
case; the first one whose pattern matches the whole name decides. Patterns are Java's (`config.java_patterns`).
Invariant: for all that is not refused, the result is Java's.
Source: Kafka SslPrincipalMapper, DefaultKafkaPrincipalBuilder; KIP-371; Java's Matcher.replaceAll.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from config.java_patterns.pattern import compile_java
from security.principal import ANONYMOUS, USER_TYPE, Principal
from security.tls.distinguished_name import subject_name

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLIT = re.compile(rf"\s*({_RULE})\s*(?:,\s*|\Z)", re.ASCII)
_PARSE = re.compile(_RULE, re.ASCII)
_DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class _Rule:
    """`pattern` is None for DEFAULT."""

    text: str
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal's name; None if the rule does not apply. Raises ValueError for a group that is not there."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self._replace_all(self.pattern, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _replace_all(self, pattern: re.Pattern[str], name: str) -> str:
        """Replace all matches as Java does, also an empty one behind the last character."""
        parts, kept, position = list[str](), 0, 0
        while position <= len(name) and (match := pattern.search(name, position)) is not None:
            parts += (name[kept : match.start()], self._replace(match))
            kept = match.end()
            position = kept + (match.start() == kept)
        return "".join((*parts, name[kept:]))

    def _replace(self, match: re.Match[str]) -> str:
        text, parts, position = self.replacement, list[str](), 0
        while position < len(text):
            character = text[position]
            if character == "\\":
                if position + 1 == len(text):
                    raise ValueError(f"{self.text}: nothing follows the last backslash")
                parts.append(text[position + 1])
                position += 2
            elif character == "$":
                part, position = self._group(match, position + 1)
                parts.append(part)
            else:
                parts.append(character)
                position += 1
        return "".join(parts)

    def _group(self, match: re.Match[str], position: int) -> tuple[str, int]:
        """Return the text of a group whose reference goes on at `position`, and the position behind it."""
        text, count = self.replacement, match.re.groups
        if text[position : position + 1] == "{":
            end = text.find("}", position)
            name = text[position + 1 : end]
            if end < 0 or name not in match.re.groupindex:
                raise ValueError(f"{self.text}: there is no group {name!r}")
            return match[name] or "", end + 1
        if text[position : position + 1] not in tuple(_DIGITS):
            raise ValueError(f"{self.text}: a dollar sign refers to no group")
        number = int(text[position])
        if number > count:
            if count == 0:
                raise ValueError(f"{self.text}: there is no group {number}")
            return f"${number}", position + 1  # Kafka takes it for text
        position += 1
        while position < len(text) and text[position] in _DIGITS and number * 10 + int(text[position]) <= count:
            number = number * 10 + int(text[position])
            position += 1
        return match[number] or "", position


class SslPrincipalMapper:
    """The rules of a broker."""

    def __init__(self, rules: str) -> None:
        """Raises ValueError, with the rule."""
        self._text = rules
        self._rules = [rule for text in _split(rules) if (rule := _parse(text)) is not None]

    def principal(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client by its certificate in DER form, ANONYMOUS if it showed none. Raises ValueError."""
        return ANONYMOUS if certificate is None else Principal(USER_TYPE, self.name(subject_name(certificate)))

    def name(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises ValueError when no rule applies."""
        for rule in self._rules:
            result = rule.apply(distinguished_name)
            if result is not None:
                return result
        raise ValueError(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}")


def _split(rules: str) -> list[str]:
    return [match[1] for match in _SPLIT.finditer(rules.strip())]


def _parse(text: str) -> _Rule | None:
    """Return a rule; None for an empty one. Raises ValueError."""
    match = _PARSE.match(text)
    assert match is not None  # it may match nothing
    if match.end() != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(text)
    if match[2] is None:
        return None
    try:
        pattern = compile_java(match[2])
    except ValueError as error:
        raise ValueError(f"Invalid rule: `{text}`: {error}") from error
    return _Rule(text, pattern, match[3], match[4])
