"""JSONPath queries of users, which say where in a JSON value a condition looks. Pure.

Rules: the time of a query is in proportion to the size of the document, whatever the query is: it has one selector a segment,
at most one `..`, `$` only at its beginning, and patterns of RE2. A plain path of names and indexes is followed step by
step, without the library.
Source: RFC 9535.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import re2
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathQuery
from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction
from jsonpath_rfc9535.lex import tokenize
from jsonpath_rfc9535.segments import JSONPathChildSegment
from jsonpath_rfc9535.selectors import IndexSelector, NameSelector
from jsonpath_rfc9535.tokens import TokenType

from web.messages.patterns import InvalidPattern, compiled

MAX_PATH_CHARS: Final = 512
_OPENING, _CLOSING = (TokenType.LBRACKET, TokenType.LPAREN), (TokenType.RBRACKET, TokenType.RPAREN)


class InvalidPath(ValueError):
    """The text says what is wrong with a path."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """`steps` are the names and indexes of a plain path; None: `query` is asked."""

    text: str
    steps: tuple[str | int, ...] | None
    query: JSONPathQuery

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """`$.a[0].b`, where `$.` may be left out. Raises InvalidPath."""
        if len(text) > MAX_PATH_CHARS:
            raise InvalidPath(f"the path has more than {MAX_PATH_CHARS} characters")
        path = text.strip()
        if not path.startswith("$"):
            path = f"${path}" if path.startswith(("[", ".")) else f"$.{path}"
        try:
            _check_bounded(path)
            query = _ENVIRONMENT.compile(path)
        except (JSONPathError, RecursionError) as error:
            raise InvalidPath(f"{path!r} is no JSONPath: {str(error).splitlines()[0]}") from None
        return cls(path, _plain_steps(query), query)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of members that a document must have; none where that is not known."""
        return tuple(step for step in self.steps or () if isinstance(step, str))

    def values(self, document: Any) -> list[Any]:
        """Return the values at this path."""
        if self.steps is None:
            try:
                return [node.value for node in self.query.finditer(document)]
            except (JSONPathError, RecursionError):  # a document that is nested too deeply
                return []
        value = document
        for step in self.steps:
            if isinstance(step, str):
                if not isinstance(value, dict) or step not in value:
                    return []
            elif not isinstance(value, list) or not -len(value) <= step < len(value):
                return []
            value = value[step]
        return [value]


class _PatternFunction(FilterFunction):
    """`match` and `search`, whose patterns RE2 reads: the library's own take exponential time."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012  as the library declares it
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._last: tuple[str, re2._Regexp | None] = ("", None)

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        last_pattern, expression = self._last
        if last_pattern != pattern or expression is None:
            try:
                expression = compiled(pattern)
            except InvalidPattern:
                return False
            self._last = pattern, expression
        find = expression.fullmatch if self._is_whole else expression.search
        return find(text.encode("utf-8", "surrogatepass")) is not None


def _environment() -> JSONPathEnvironment:
    made = JSONPathEnvironment()
    made.function_extensions["match"] = _PatternFunction(is_whole=True)
    made.function_extensions["search"] = _PatternFunction(is_whole=False)
    return made


_ENVIRONMENT: Final = _environment()


def _check_bounded(path: str) -> None:
    """Raises InvalidPath for a query that may take longer than in proportion to the document, JSONPathError."""
    opened: list[TokenType] = []
    descents = 0
    for token in tokenize(path):
        kind = token.type_
        if kind in (*_OPENING, TokenType.FUNCTION):
            opened.append(kind)
        elif kind in _CLOSING and opened:
            opened.pop()
        elif kind is TokenType.COMMA and opened and opened[-1] is TokenType.LBRACKET:
            raise InvalidPath("a bracket has one name, index, slice or filter: several with a comma are not supported")
        elif kind is TokenType.ROOT and token.index > 0:
            raise InvalidPath("`$` stands only at the beginning: a filter looks from `@`")
        descents += kind is TokenType.DOUBLE_DOT
    if descents > 1:
        raise InvalidPath("`..` may stand in a path once")


def _plain_steps(query: JSONPathQuery) -> tuple[str | int, ...] | None:
    steps: list[str | int] = []
    for segment in query.segments:
        selector = segment.selectors[0]
        if not isinstance(segment, JSONPathChildSegment) or len(segment.selectors) != 1:
            return None
        if isinstance(selector, NameSelector):
            steps.append(selector.name)
        elif isinstance(selector, IndexSelector):
            steps.append(selector.index)
        else:
            return None
    return tuple(steps)
