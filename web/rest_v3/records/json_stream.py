"""Divides a stream of bytes into the JSON objects that stand in it one after the other. Pure.

Rules: an object is given as soon as its last byte is there. Each character is looked at three times at most, however the bytes
are divided: an object that is not complete is not parsed again with each chunk, but searched for its end from where the search
has stopped. An object has at most `max_chars`, and a text of it is kept only while it is not complete.
Errors: JsonStreamError, behind which the stream cannot go on: nobody knows where the next object begins.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_IN_STRING: Final = re.compile(r'["\\]')


class JsonStreamError(ValueError):
    """What has come is no JSON object. `status` is 400, or 413 when it is too large."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number, parse_float=_float)


class JsonStream:
    """The objects of one stream of UTF-8."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._parts: list[str] = []
        self.waiting_chars = 0
        """How much there is of an object that is not complete."""
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False

    def feed(self, content: bytes) -> Iterator[dict[str, Any]]:
        """Give the objects that are complete now; take all of them before the next call. Raises JsonStreamError."""
        text = self._text(content)
        at = 0
        if self._parts:
            at = self._end(text, 0)
            self._keep(text if at < 0 else text[:at])
            if at < 0:
                return
            whole = "".join(self._parts)
            self._parts, self.waiting_chars = [], 0
            yield self._parsed(whole)
        while True:
            space = _SPACE.match(text, at)
            assert space is not None, "it matches nothing, too"
            at = space.end()
            if at == len(text):
                return
            if text[at] != "{":
                raise JsonStreamError(f"an object is expected, and not {text[at : at + 20]!r}")
            try:
                found, end = _DECODER.raw_decode(text, at)
            except ValueError as error:
                self._depth = 0
                if self._end(text, at) >= 0:
                    raise _error(error) from error
                self._keep(text[at:])
                return
            except RecursionError as error:
                raise _error(error) from error
            self._check_size(end - at)
            at = end
            yield found

    def end(self) -> None:
        """Raises JsonStreamError when an object is not complete."""
        self._text(b"", is_last=True)
        if self._parts:
            raise JsonStreamError("the last object is not complete")

    def _text(self, content: bytes, *, is_last: bool = False) -> str:
        try:
            return self._utf8.decode(content, is_last)
        except UnicodeDecodeError as error:
            raise JsonStreamError("the text is no UTF-8") from error

    def _keep(self, text: str) -> None:
        self.waiting_chars += len(text)
        self._check_size(self.waiting_chars)
        self._parts.append(text)

    def _check_size(self, chars: int) -> None:
        if chars > self._max_chars:
            raise JsonStreamError(f"an object has more than {self._max_chars} characters", 413)

    @staticmethod
    def _parsed(text: str) -> dict[str, Any]:
        try:
            found, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError) as error:
            raise _error(error) from error
        assert end == len(text), "the search ends where the object does"
        return found  # type: ignore[no-any-return]

    def _end(self, text: str, at: int) -> int:
        """Return where the object ends, -1 when it does not end in this text."""
        while at < len(text):
            if self._is_escaped:
                self._is_escaped = False
                at += 1
                continue
            found = (_IN_STRING if self._is_in_string else _OUTSIDE).search(text, at)
            if found is None:
                return -1
            at, sign = found.end(), found.group()
            if sign == '"':
                self._is_in_string = not self._is_in_string
            elif sign == "\\":
                self._is_escaped = True
            else:
                self._depth += 1 if sign in "{[" else -1
                if self._depth == 0:
                    return at
        return -1


def _error(error: Exception) -> JsonStreamError:
    if isinstance(error, RecursionError):
        return JsonStreamError("the JSON is nested too deeply")
    return JsonStreamError(f"this is no JSON: {error}")
