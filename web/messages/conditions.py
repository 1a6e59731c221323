"""What a search looks for: conditions on keys, values, headers and fields of JSON, which must all hold. Pure.

    key:is:order-17    value:contains~:timeout    header:trace-id:starts:00-    json:$.order.id:is:17    value:!exists

A condition is `TARGET:TEST:TEXT`. In the name of a header and in a path `:` and `%` are percent-encoded; the text is
what is left, as it is. `~` behind a test ignores case, `!` before it turns it around.

Rules: texts are compared as UTF-8 with what is stored, or with what it was decoded to. The values of a header that
occurs several times, and of a path, need only one that fits. What takes long for large values says so (`is_slow_for`):
RE2 leaves the interpreter to others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import re2

from web.messages.json_paths import InvalidPath, JsonPath
from web.messages.patterns import InvalidPattern, compiled

MAX_CONDITIONS: Final = 16
MAX_TEXT_CHARS: Final = 8_192
MAX_JSON_BYTES: Final = 1 << 20
"""Larger values are not looked at by conditions on fields: reading JSON stops everything else for 10 ms a MiB."""
SLOW_BYTES: Final = 32 << 10
"""From this size on a value is looked at in a thread."""
HOW: Final = (
    "A condition is TARGET:TEST:TEXT, such as key:is:order-17, value:contains~:timeout, header:trace-id:starts:00-, "
    "json:$.order.id:is:17 or value:!exists. Targets are key, value, header:NAME, json:PATH, key_json:PATH and any; "
    "tests are is, contains, starts, matches and exists, with ! before to turn them around and ~ behind to ignore case."
)


class InvalidCondition(ValueError):
    """The text says what is wrong."""


class Contents(NamedTuple):
    """What of a record is looked at; key and value are decoded where they are not text."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Target(Enum):
    KEY = "key"
    VALUE = "value"
    HEADER = "header"
    JSON = "json"
    KEY_JSON = "key_json"
    ANY = "any"


class Kind(Enum):
    IS = "is"
    CONTAINS = "contains"
    STARTS = "starts"
    MATCHES = "matches"
    EXISTS = "exists"


_ARGUED: Final = (Target.HEADER, Target.JSON, Target.KEY_JSON)


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold of bytes. `pattern` finds them where it is not enough to compare."""

    kind: Kind
    text: str = ""
    ignores_case: bool = False
    data: bytes = field(init=False)
    pattern: re2._Regexp | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Raises InvalidPattern."""
        pattern = None
        if self.kind is Kind.MATCHES:
            pattern = compiled(self.text, ignores_case=self.ignores_case)
        elif self.kind is not Kind.EXISTS and self.text and (self.ignores_case or self.kind is Kind.CONTAINS):
            pattern = compiled(self.text, ignores_case=self.ignores_case, is_literal=True)
        object.__setattr__(self, "data", self.text.encode("utf-8", "surrogatepass"))
        object.__setattr__(self, "pattern", pattern)

    def holds(self, data: bytes | None) -> bool:
        if data is None:
            return False
        kind, pattern = self.kind, self.pattern
        if kind is Kind.EXISTS:
            return True
        if pattern is None or (kind is Kind.CONTAINS and not self.ignores_case and len(data) < SLOW_BYTES):
            if kind is Kind.CONTAINS:
                return self.data in data
            return data == self.data if kind is Kind.IS else data.startswith(self.data)
        if kind is Kind.IS:
            return pattern.fullmatch(data) is not None
        return (pattern.match(data) if kind is Kind.STARTS else pattern.search(data)) is not None


@dataclass(frozen=True, slots=True)
class Condition:
    target: Target
    check: Check
    is_negated: bool = False
    name: str = ""
    path: JsonPath | None = None

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Raises InvalidCondition."""
        if len(text) > MAX_TEXT_CHARS:
            raise InvalidCondition(f"a condition has more than {MAX_TEXT_CHARS} characters")
        word, _, rest = text.partition(":")
        try:
            target = Target(word)
        except ValueError:
            raise InvalidCondition(f"{word!r} is none of {', '.join(each.value for each in Target)}") from None
        argument = ""
        if target in _ARGUED:
            argument, separator, rest = rest.partition(":")
            if not argument or not separator:
                raise InvalidCondition(f"{text!r} has no {'name' if target is Target.HEADER else 'path'} or no test")
            argument = unquote(argument, errors="surrogateescape")
        word, separator, expected = rest.partition(":")
        check, is_negated = _check(text, word, expected if separator else None)
        try:
            path = None if target in (Target.KEY, Target.VALUE, Target.HEADER, Target.ANY) else JsonPath.parse(argument)
        except InvalidPath as error:
            raise InvalidCondition(str(error)) from None
        return cls(target, check, is_negated, argument if target is Target.HEADER else "", path)

    def holds(self, contents: Contents, documents: Documents) -> bool:
        found = self._parts(contents, documents)
        return any(self.check.holds(each) for each in found) is not self.is_negated

    def _parts(self, contents: Contents, documents: Documents) -> Iterable[bytes | None]:
        match self.target:
            case Target.KEY:
                return (contents.key,)
            case Target.VALUE:
                return (contents.value,)
            case Target.HEADER:
                return [value if value is not None else b"" for name, value in contents.headers if name == self.name]
            case Target.ANY:
                return _all_parts(contents)
        assert self.path is not None
        return _texts(self.path, documents.key if self.target is Target.KEY_JSON else documents.value)

    @property
    def reads_json(self) -> bool:
        return self.path is not None


class Documents:
    """The JSON of one record, which is read when a condition wants it."""

    __slots__ = ("_key", "_value", "contents")
    _UNREAD: Final = object()
    NOTHING: Final = object()
    """There is no JSON."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._key: Any = self._UNREAD
        self._value: Any = self._UNREAD

    @property
    def key(self) -> Any:
        if self._key is self._UNREAD:
            self._key = self._read(self.contents.key)
        return self._key

    @property
    def value(self) -> Any:
        if self._value is self._UNREAD:
            self._value = self._read(self.contents.value)
        return self._value

    @classmethod
    def _read(cls, data: bytes | None) -> Any:
        if not data or len(data) > MAX_JSON_BYTES:
            return cls.NOTHING
        try:
            return json.loads(data.decode())  # as UTF-8: the library would take UTF-16 as well
        except (ValueError, RecursionError):
            return cls.NOTHING


@dataclass(frozen=True, slots=True)
class Conditions:
    """All must hold. Timestamps are from `since_ms` on, and before `until_ms`."""

    conditions: tuple[Condition, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None

    @classmethod
    def parse(cls, texts: Sequence[str], since_ms: int | None = None, until_ms: int | None = None) -> Conditions:
        """Raises InvalidCondition."""
        if len(texts) > MAX_CONDITIONS:
            raise InvalidCondition(f"there are more than {MAX_CONDITIONS} conditions")
        return cls(tuple(Condition.parse(each) for each in texts), since_ms, until_ms)

    @property
    def reads_json(self) -> bool:
        return any(each.reads_json for each in self.conditions)

    def takes_time(self, timestamp_ms: int) -> bool:
        if self.since_ms is not None and timestamp_ms < self.since_ms:
            return False
        return self.until_ms is None or timestamp_ms < self.until_ms

    def hold(self, contents: Contents) -> bool:
        documents = Documents(contents)
        return all(each.holds(contents, documents) for each in self.conditions)


def is_slow_for(contents: Contents) -> bool:
    """Whether looking at it would keep others waiting."""
    return (
        len(contents.value or b"") > SLOW_BYTES or len(contents.key or b"") > SLOW_BYTES or len(contents.headers) > 100
    )


def _check(text: str, word: str, expected: str | None) -> tuple[Check, bool]:
    name = word.removeprefix("!")
    ignores_case = name.endswith("~")
    try:
        kind = Kind(name.removesuffix("~"))
    except ValueError:
        raise InvalidCondition(f"{word!r} in {text!r} is no test") from None
    if expected is None and kind is not Kind.EXISTS:
        raise InvalidCondition(f"{text!r} says nothing behind {word!r}")
    if expected is not None and kind is Kind.EXISTS:
        raise InvalidCondition(f"{text!r} has a text behind {word!r}, which needs none")
    try:
        return Check(kind, expected or "", ignores_case), word.startswith("!")
    except InvalidPattern as error:
        raise InvalidCondition(str(error)) from None


def _all_parts(contents: Contents) -> Iterator[bytes | None]:
    yield contents.key
    yield contents.value
    for name, value in contents.headers:
        yield name.encode("utf-8", "surrogatepass")
        yield value


def _texts(path: JsonPath, document: Any) -> list[bytes | None]:
    """Return what is compared: strings as they are, all else as JSON."""
    if document is Documents.NOTHING:
        return []
    return [
        (each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, separators=(",", ":"))).encode(
            "utf-8", "surrogatepass"
        )
        for each in path.values(document)
    ]
