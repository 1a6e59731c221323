"""How keys, values and records are shown: as text, JSON, hexadecimal digits, or what a decoder made of them; and in
JSON. Pure.

Rules: what is shown is always text, of a bounded length, with the size of the stored bytes; JSON is the text as it is
stored, so that no number changes. `auto` takes the first that fits: a decoder, JSON objects and arrays, text without
control characters, hexadecimal digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, Final

from protocol.records.batch import NO_TIMESTAMP, BatchHeader
from protocol.records.record import Record

LIST_BYTES: Final = 4 << 10
LIST_HEADER_BYTES: Final = 256
LIST_HEADERS: Final = 20
DETAIL_BYTES: Final = 1 << 20
DETAIL_HEADERS: Final = 1_000
_PARSED_BYTES: Final = 64 << 10
"""A larger value is taken for JSON by its first and last character."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_INDENT: Final = "  "


class Format(Enum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    SCHEMA = "schema"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class ShownText:
    """`size_bytes` is that of what is stored; `is_cut`: the text is its beginning only. `note` says why it is not
    shown as was asked."""

    format: str
    text: str
    size_bytes: int
    is_cut: bool = False
    schema_id: int | None = None
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoder made of bytes: `text` is JSON. `kind` names the format, such as avro. Without a text `note` says why."""

    kind: str
    text: str | None
    schema_id: int | None = None
    note: str = ""


Decode = Callable[[bytes], Decoded | None]
"""Returns None for bytes that are not of its kind."""


def shown(data: bytes, wanted: Format, max_bytes: int, decoded: Decoded | None = None) -> ShownText:
    """Return how bytes are shown. `decoded` is what a decoder made of them, if one did."""
    note = ""
    if decoded is not None and wanted in (Format.AUTO, Format.SCHEMA, Format.INTERNAL):
        if decoded.text is not None:
            text = decoded.text[:max_bytes].encode("utf-8", "replace").decode()  # JSON may have half a character
            return ShownText(
                decoded.kind, text, len(data), len(text) < len(decoded.text), decoded.schema_id, decoded.note
            )
        note = decoded.note
    elif wanted in (Format.SCHEMA, Format.INTERNAL):
        note = "the bytes do not begin as those of a schema do" if wanted is Format.SCHEMA else "its form is not known"
    made = None
    if wanted is not Format.HEX:
        made = text_of(data, max_bytes, any_text=wanted is Format.TEXT)
    if made is None:
        if wanted in (Format.TEXT, Format.JSON):
            note = "it is no UTF-8 text"
        made = hex_of(data, max_bytes)
    elif wanted is not Format.TEXT and is_json(data):
        made = replace(made, format="json")
    elif wanted is Format.JSON and not is_json(data, any_value=True):
        note = "it is no JSON"
    elif wanted is Format.JSON:
        made = replace(made, format="json")
    return replace(made, note=note, schema_id=None if decoded is None else decoded.schema_id)


def text_of(data: bytes, max_bytes: int, *, any_text: bool = False) -> ShownText | None:
    """Return bytes as text; None where they are no UTF-8, or have control characters and not `any_text` is wanted."""
    is_cut = len(data) > max_bytes
    try:
        text = data.decode() if not is_cut else _beginning(data, max_bytes)
    except UnicodeDecodeError:
        return None
    if not any_text and _CONTROL.search(text):
        return None
    return ShownText("text", text, len(data), is_cut)


def hex_of(data: bytes, max_bytes: int) -> ShownText:
    cut = data[: max_bytes // 2]
    return ShownText("hex", cut.hex(), len(data), len(cut) < len(data))


def is_json(data: bytes, *, any_value: bool = False) -> bool:
    """Whether bytes are a JSON object or array, or with `any_value` any JSON; large ones are judged by how they begin
    and end."""
    bare = data[:64].lstrip(b" \t\r\n")[:1] + data[-64:].rstrip(b" \t\r\n")[-1:]
    if not any_value and bare not in (b"{}", b"[]"):
        return False
    if len(data) > _PARSED_BYTES:
        return bare in (b"{}", b"[]", b'""')
    try:
        json.loads(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


def indented(text: str) -> str:
    """Return JSON with line breaks and indents; names, numbers and texts stay as they are written."""
    parts: list[str] = []
    depth = 0
    last = ""
    for word in _WORD.findall(text):
        if word in "}]":
            depth -= 1
            if last not in ("{", "["):
                parts.append("\n" + _INDENT * depth)
        elif last in ("{", "[") or last == ",":
            parts.append("\n" + _INDENT * depth)
        elif last == ":":
            parts.append(" ")
        parts.append(word)
        if word in "{[":
            depth += 1
        last = word
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class RecordForm:
    """How the records of one answer are shown. Decoders are asked where the format leaves it to them."""

    key_format: Format = Format.AUTO
    value_format: Format = Format.AUTO
    max_bytes: int = LIST_BYTES
    max_header_bytes: int = LIST_HEADER_BYTES
    max_headers: int = LIST_HEADERS

    def as_json(
        self,
        topic: str,
        partition: int,
        record: Record,
        header: BatchHeader,
        key: Decoded | None,
        value: Decoded | None,
    ) -> dict[str, Any]:
        """Return a record in JSON. `key`, `value`: what decoders made of them, if they did."""
        headers = record.headers[: self.max_headers]
        return {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "leader_epoch": header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None,
            "timestamp_ms": None if record.timestamp == NO_TIMESTAMP else record.timestamp,
            "timestamp_type": "append" if header.is_log_append_time else "create",
            "key": self._shown(record.key, self.key_format, key),
            "value": self._shown(record.value, self.value_format, value),
            "headers": [
                {
                    "name": name.encode("utf-8", "replace").decode(),
                    "value": None if data is None else shown(data, Format.AUTO, self.max_header_bytes).as_json(),
                }
                for name, data in headers
            ],
            "headers_left": len(record.headers) - len(headers),
            "size_bytes": content_bytes(record),
        }

    def _shown(self, data: bytes | None, wanted: Format, decoded: Decoded | None) -> dict[str, Any] | None:
        return None if data is None else shown(data, wanted, self.max_bytes, decoded).as_json()


def forms(data: bytes | None, schema: Decoded | None, internal: Decoded | None) -> dict[str, Any] | None:
    """Return every form in which bytes can be shown; None for those that they do not have."""
    if data is None:
        return None
    text = text_of(data, DETAIL_BYTES, any_text=True)
    as_json = None
    if text is not None and is_json(data, any_value=True):
        as_json = replace(text, format="json", text=text.text if text.is_cut else indented(text.text))
    found = {"text": text, "json": as_json, "hex": hex_of(data, DETAIL_BYTES)}
    for name, decoded in (("schema", schema), ("internal", internal)):
        found[name] = None
        if decoded is not None:
            made = shown(data, Format(name), DETAIL_BYTES, decoded)
            found[name] = made if made.is_cut or decoded.text is None else replace(made, text=indented(made.text))
    return {name: None if each is None else each.as_json() for name, each in found.items()}


def content_bytes(record: Record) -> int:
    """Return the size of key, value and headers."""
    headers = sum(len(name.encode("utf-8", "replace")) + len(data or b"") for name, data in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _beginning(data: bytes, max_bytes: int) -> str:
    """Return the first characters; raises UnicodeDecodeError."""
    for size in range(max_bytes, max_bytes - 4, -1):
        try:
            return data[:size].decode()
        except UnicodeDecodeError as error:
            if error.start < size - 3:
                raise
            problem = error
    raise problem
