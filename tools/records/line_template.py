r"""The line of a record in a format of the user, that of kcat's option `-f`. Pure.

    %s %v   value                       %S   bytes of the value, -1 for none
    %k      key                         %K   bytes of the key, -1 for none
    %t %p %o   topic, partition, offset %R   bytes of the value as a 32-bit number, big endian; with --raw
    %T %D   time in milliseconds, as date and time
    %h      headers                     %%   a percent sign
    \n \r \t   \xHH   \0OO (octal)   \NN (decimal)   any other character after \ is itself

Rules: `%v` and `%D` are ours. A format that ends in a control character brings its own end of line (`\n`, `\0`); any other
gets a line feed.
Source: kcat, format.c.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from runtime.texts import time_text
from tools.records.line_text import Line, LineText
from tools.records.record_view import NO_TIMESTAMP, RecordView

_Field = Callable[[RecordView, LineText], str]
_TOKEN = re.compile(
    r"%(?P<field>.?)|\\(?:x(?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)|(?P<other>.))", re.DOTALL
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_BYTES_FIELD = "R"
_FIRST_PRINTED = 0x20


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


_FIELDS: dict[str, _Field] = {
    "s": lambda record, texts: texts.value(record.value),
    "v": lambda record, texts: texts.value(record.value),
    "k": lambda record, texts: texts.text(record.key),
    "t": lambda record, texts: texts.name(record.topic),
    "p": lambda record, _texts: str(record.partition),
    "o": lambda record, _texts: str(record.offset),
    "T": lambda record, _texts: str(record.timestamp_ms),
    "D": lambda record, _texts: "" if record.timestamp_ms == NO_TIMESTAMP else time_text(record.timestamp_ms),
    "h": lambda record, texts: texts.headers(record, ",", "=", ""),
    "S": lambda record, _texts: str(_size(record.value)),
    "K": lambda record, _texts: str(_size(record.key)),
    _BYTES_FIELD: lambda record, texts: texts.literal(struct.pack(">i", _size(record.value))),
}


@dataclass(frozen=True, slots=True)
class LineTemplate:
    """Texts of the user, and fields of a record."""

    pieces: tuple[bytes | str, ...]
    """A literal, or the letter of a field."""

    @classmethod
    def parse(cls, template: str) -> LineTemplate:
        """Raises ValueError for a field that does not exist."""
        pieces: list[bytes | str] = []
        literal, end = b"", 0
        for match in _TOKEN.finditer(template):
            literal += template[end : match.start()].encode()
            end = match.end()
            field = match["field"]
            if field is None:
                literal += _escaped(match)
            elif field == "%":
                literal += b"%"
            elif field in _FIELDS:
                pieces += (literal, field)
                literal = b""
            else:
                known = ", ".join(f"%{name}" for name in (*_FIELDS, "%"))
                raise ValueError(f"%{field} is no field of a record; there are {known}")
        literal += template[end:].encode()
        if not literal or literal[-1] >= _FIRST_PRINTED:
            literal += b"\n"
        return cls((*pieces, literal))

    def line(self, texts: LineText) -> Line:
        """Return what makes the lines of records for an output. Raises ValueError for bytes in a line of text."""
        if _BYTES_FIELD in self.pieces and not texts.is_raw:
            raise ValueError(f"%{_BYTES_FIELD} is bytes and no text: it goes with --raw")
        makers = [_FIELDS[piece] if isinstance(piece, str) else texts.literal(piece) for piece in self.pieces]
        return texts.line(
            lambda record: "".join(piece if isinstance(piece, str) else piece(record, texts) for piece in makers)
        )


def _escaped(match: re.Match[str]) -> bytes:
    for group, base in (("hex", 16), ("octal", 8), ("decimal", 10)):
        if match[group] is not None:
            return bytes([int(match[group], base) % 256])
    return _ESCAPES.get(match["other"], match["other"]).encode()
