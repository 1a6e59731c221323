"""What the bytes of a record must hold if the record can fulfil conditions: most batches and records are passed over
by it. Pure.

Invariant: it never passes over a record that fulfils the conditions. So a text of JSON, which may be written with
escapes, has those as an alternative; regular expressions are looked for without what they say about what is before and
behind, since that is another here; numbers, which may be written in several ways, are not looked for; nor is
anything in keys and values that are decoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import re2

from web.messages.conditions import Check, Condition, Conditions, Kind, Target
from web.messages.patterns import InvalidPattern, compiled

_WORD_OF_PATTERN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|.", re.DOTALL)
_ASSERTIONS: Final = frozenset({"^", "$", r"\A", r"\b", r"\B", r"\z"})
_NOTHING: Final = "(?:)"
_JSON_NAME: Final = re.compile(r"[A-Za-z0-9_ .:-]+")
_JSON_TEXT: Final = re.compile(r"[A-Za-z0-9_ -]*[b-dg-hj-mo-su-xzB-DG-HJ-MO-SU-XZ_][A-Za-z0-9_ -]*")
"""A text with a letter that no number has, also not infinity and `NaN`."""
_WHOLE_NUMBER: Final = re.compile(r"-?[1-9][0-9]*")
_ESCAPE: Final = b"\\u"
_REPLACED: Final = "\ufffd"  # what is read for bytes that are no UTF-8


@dataclass(frozen=True, slots=True)
class Prefilter:
    """One of the literals of each row must be there, and each expression must be found."""

    literals: tuple[tuple[bytes, ...], ...] = ()
    patterns: tuple[re2._Regexp, ...] = ()

    @classmethod
    def of(cls, conditions: Conditions, *, decodes_key: bool = False, decodes_value: bool = False) -> Prefilter:
        """`decodes_key`: conditions look at something else than the stored bytes of keys."""
        literals: list[tuple[bytes, ...]] = []
        patterns: list[re2._Regexp] = []
        for each in conditions.conditions:
            decoded = {Target.KEY: decodes_key, Target.KEY_JSON: decodes_key, Target.HEADER: False}.get(
                each.target, decodes_key or decodes_value if each.target is Target.ANY else decodes_value
            )
            if each.is_negated or decoded:
                continue
            if each.target in (Target.JSON, Target.KEY_JSON):
                literals += _json_literals(each)
                continue
            if each.target is Target.HEADER and _REPLACED not in each.name:
                literals.append((each.name.encode("utf-8", "surrogateescape"),))
            if _is_comparison(each.check) and _REPLACED not in each.check.text:
                if each.check.ignores_case:
                    assert each.check.pattern is not None
                    patterns.append(each.check.pattern)
                else:
                    literals.append((each.check.data,))
            elif each.check.kind is Kind.MATCHES and (wider := _without_assertions(each.check)) is not None:
                patterns.append(wider)
        return cls(tuple(sorted(literals, key=len)), tuple(patterns))

    @property
    def is_empty(self) -> bool:
        return not self.literals and not self.patterns

    def may_hold(self, data: bytes, start: int, end: int) -> bool:
        """Whether data[start:end] may be, or hold, a record that fulfils the conditions."""
        for row in self.literals:
            if not any(data.find(each, start, end) >= 0 for each in row):
                return False
        return all(each.search(data, start, end) is not None for each in self.patterns)

    def next_possible(self, data: bytes, start: int, end: int) -> int:
        """Return before which position no such record ends; `end` for none at all. Quicker than `may_hold` for every
        record."""
        if not self.literals:
            return start
        found = [at for each in self.literals[0] if (at := data.find(each, start, end)) >= 0]
        return min(found, default=end)


def _is_comparison(check: Check) -> bool:
    return check.kind in (Kind.IS, Kind.CONTAINS, Kind.STARTS) and bool(check.text)


def _without_assertions(check: Check) -> re2._Regexp | None:
    """Return an expression that is found wherever that of a check is, whatever is before and behind; None for one that is
    found everywhere."""
    words = _WORD_OF_PATTERN.findall(check.text)
    if r"\Q" in words:
        return None
    changed = [_NOTHING if each in _ASSERTIONS else each for each in words]
    try:
        found = compiled("".join(changed), ignores_case=check.ignores_case)
    except InvalidPattern:  # it is longer now
        return None
    return None if found.search(b"") is not None else found


def _json_literals(condition: Condition) -> list[tuple[bytes, ...]]:
    assert condition.path is not None
    rows: list[tuple[bytes, ...]] = [
        (b'"%s"' % name.encode(), _ESCAPE) for name in condition.path.names if _JSON_NAME.fullmatch(name)
    ]
    check = condition.check
    if _is_comparison(check) and not check.ignores_case:
        is_number = check.kind is Kind.IS and _WHOLE_NUMBER.fullmatch(check.text)
        if is_number or _JSON_TEXT.fullmatch(check.text):
            rows.append((check.data, _ESCAPE))
    return rows
