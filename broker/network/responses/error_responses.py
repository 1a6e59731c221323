"""The response to a request that failed as a whole, for the messages that can carry the error.

Rules: pure. A response with a top-level error code gets it there, and is empty otherwise. In others, or besides, the error
stands in a row for each row of the request: the handler's `ErrorForm` says which rows these are, and the fields of both are
derived from the tables of the messages. For others there is None.
Source: Kafka AbstractRequest.getErrorResponse of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, cast

from protocol.errors import ErrorCode
from protocol.fields import REQUIRED, Field
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response

ROW_TEXTS_MAX = 1000
"""Rows that have the error's text; those of a large request that follow have its code only."""
_EMPTY: dict[str, object] = {"string": "", "bytes_": b"", "records": None, "bool_": False, "uuid": ZERO_UUID}

Errors = Callable[[Any, int, ErrorCode, str | None], Response | None]
"""From a request, its version, the error and its message to the response; None when no response can carry the error."""


class ErrorForm:
    """What the response to a failed request is like.

    `rows` maps a field of the response to the field of the request with whose rows it answers. "topics.partitions" are the
    partitions of all topics; of several fields those count that the version has. A row of the response takes a field from
    the row of the request, or the row around it: that of the same name; else the first of its kind, if there must be one.
    `is_always_sent`: also in versions that have no place for the error.
    `values` are those of other fields that say that there is no result.
    """

    def __init__(self, rows: dict[str, str] | None = None, *, is_always_sent: bool = False, **values: object) -> None:
        self._rows = rows or {}
        self._is_always_sent = is_always_sent or bool(rows)
        self._values = values
        self._makers: dict[tuple[type[Request], int], _Maker | None] = {}

    def __call__(self, request: Request, version: int, code: ErrorCode, message: str | None) -> Response | None:
        key = type(request), version
        if key not in self._makers:
            self._makers[key] = self._maker(type(request), version)
        maker = self._makers[key]
        if maker is None:
            return None
        texts = chain(repeat(message, ROW_TEXTS_MAX + maker.has_text), repeat(None))
        return cast("Response", maker.made((request,), code, texts))

    def _maker(self, request_type: type[Request], version: int) -> _Maker | None:
        response_type = request_type.response_type
        fields = _fields(response_type, version)
        if not self._is_always_sent and all(field.name != "error_code" for field in fields):
            return None
        maker = _Maker(response_type, (), version, self._values)
        for field in fields:
            for path in self._rows.get(field.name, "").split():
                elements: tuple[Any, ...] = (request_type,)
                names = path.split(".")
                for name in names:
                    found = next((each for each in _fields(elements[0], version) if each.name == name), None)
                    if found is None:
                        break
                    elements = (found.element, *elements)
                else:
                    maker.add_rows(field, names, _Maker(field.element, elements[:-1], version, self._values))
        return maker


class _Maker:
    """Makes rows of one type, in one version, from a row of the request and those around it, whose types are `asked`, the
    innermost first."""

    def __init__(self, row_type: Any, asked: tuple[Any, ...], version: int, values: dict[str, object]) -> None:
        self._row_type: type[Message] = row_type
        self._codes: list[str] = []
        self.has_text = False
        self._constants: dict[str, object] = {}
        self._taken: list[tuple[str, int, str]] = []  # how far out the row is that has it, and as what
        self._inner: dict[str, list[tuple[list[str], _Maker]]] = {}  # where its rows are
        for field in row_type.__fields__:
            name = field.name
            if field.default is not REQUIRED and not field.versions.covers(version):
                continue  # it keeps its default
            if name in values:
                self._constants[name] = values[name]
            elif name.endswith("error_code"):
                self._codes += [name] if field.versions.covers(version) else []
            elif name == "error_message":
                self.has_text = field.versions.covers(version) or field.default is REQUIRED
            elif field.kind == "array" and asked and field.default is REQUIRED:
                self._add_array(field, asked, version, values)
            elif (source := _source(field, asked, version)) is not None:
                self._taken.append((name, *source))
            elif field.default is REQUIRED and field.kind == "array" and not field.nullable.covers(version):
                self._inner[name] = []
            elif field.default is REQUIRED:
                self._constants[name] = None if field.nullable.covers(version) else _EMPTY.get(field.kind, 0)

    def _add_array(self, field: Field, asked: tuple[Any, ...], version: int, values: dict[str, object]) -> None:
        arrays = [each for each in _fields(asked[0], version) if each.kind == "array"]
        source = next((each for each in arrays if each.name == field.name), arrays[0] if arrays else None)
        if source is None:
            self._inner[field.name] = []
        elif source.element is field.element:
            self._taken.append((field.name, 0, source.name))
        else:
            self.add_rows(field, [source.name], _Maker(field.element, (source.element, *asked), version, values))

    def add_rows(self, field: Field, names: list[str], maker: _Maker) -> None:
        self._inner.setdefault(field.name, []).append((names, maker))

    def made(self, rows: tuple[Any, ...], code: ErrorCode, texts: Iterator[str | None]) -> Message:
        given = self._constants | dict.fromkeys(self._codes, code)
        if self.has_text:
            given["error_message"] = next(texts)
        for name, depth, attribute in self._taken:
            given[name] = getattr(rows[depth], attribute) if attribute else rows[depth]
        for name, inner in self._inner.items():
            given[name] = [maker.made(each, code, texts) for names, maker in inner for each in _within(rows, names)]
        return self._row_type(**given)


TOP_LEVEL = ErrorForm()
"""Of a response that is empty but for its error."""


def _fields(element: Any, version: int) -> list[Field]:
    """Return those that a version of a message has; none of an element that is a string or a number."""
    return [field for field in getattr(element, "__fields__", ()) if field.versions.covers(version)]


def _source(field: Field, asked: tuple[Any, ...], version: int) -> tuple[int, str] | None:
    """Return how far out the row is that has a value for `field`, and in which field; "" for the row itself."""
    for depth, element in enumerate(asked):
        if any(each.name == field.name for each in _fields(element, version)):
            return depth, field.name
    for depth, element in enumerate(asked if field.default is REQUIRED else ()):
        if element == field.kind:
            return depth, ""
        alike = next((each.name for each in _fields(element, version) if each.kind == field.kind), None)
        if alike is not None:
            return depth, alike
    return None


def _within(rows: tuple[Any, ...], names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield each row that is found by these names, with the rows around it."""
    first, *rest = names
    for each in getattr(rows[0], first) or ():
        if rest:
            yield from _within((each, *rows), rest)
        else:
            yield each, *rows


def unsupported_api_versions(first_version: int, last_version: int) -> ApiVersionsResponse:
    """The v0 response to ApiVersions in a version that is not served, with the one row that says which are.

    Any client can read it, and one that comes from the future learns from it which version to ask in (KIP-511).
    """
    row = ApiVersion(api_key=ApiVersionsResponse.api_key, min_version=first_version, max_version=last_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
