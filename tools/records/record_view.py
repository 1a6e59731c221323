"""How a record is printed: a JSON object, or a line in a format of the user. Pure.

Format: `%k` key, `%v` value, `%t` topic, `%p` partition, `%o` offset, `%T` time in milliseconds, `%D` date and time,
`%h` headers, `%s` and `%S` bytes of the value and of the key, `%%` a percent sign, `\\n` and `\\t` as usual. Bytes that are no
UTF-8 are base64 in JSON, under a name of their own, and escaped in text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.texts import time_text

NO_TIMESTAMP = -1
_APPEND_TIME = 2  # confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
_FIELD = re.compile(r"%(.)|\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record as it was read. `timestamp_ms` is -1 when it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    is_append_time: bool = False
    """Whether the timestamp is the broker's, not the producer's."""

    @classmethod
    def of(cls, message: Any) -> RecordView:
        """Of a message of the client library."""
        timestamp_type, timestamp_ms = message.timestamp()
        return cls(
            message.topic(),
            message.partition(),
            message.offset(),
            timestamp_ms,
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
            timestamp_type == _APPEND_TIME,
        )

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
        }
        shown |= _named_bytes("key", self.key) | _named_bytes("value", self.value)
        shown["headers"] = [{"name": name, **_named_bytes("value", value)} for name, value in self.headers]
        return shown


def formatter(template: str) -> Callable[[RecordView], str]:
    """Return what makes the line of a record. Raises ValueError for a field that does not exist."""
    fields: dict[str, Callable[[RecordView], str]] = {
        "k": lambda record: text_of(record.key),
        "v": lambda record: text_of(record.value),
        "t": lambda record: record.topic,
        "p": lambda record: str(record.partition),
        "o": lambda record: str(record.offset),
        "T": lambda record: str(record.timestamp_ms),
        "D": lambda record: "" if record.timestamp_ms == NO_TIMESTAMP else time_text(record.timestamp_ms),
        "h": lambda record: ",".join(f"{name}={text_of(value)}" for name, value in record.headers),
        "s": lambda record: str(len(record.value or b"")),
        "S": lambda record: str(len(record.key or b"")),
        "%": lambda _record: "%",
    }
    pieces: list[str | Callable[[RecordView], str]] = []
    end = 0
    for match in _FIELD.finditer(template):
        pieces.append(template[end : match.start()])
        field, escape = match.groups()
        if field is not None:
            if field not in fields:
                raise ValueError(
                    f"%{field} is no field of a record; there are {', '.join(f'%{name}' for name in fields)}"
                )
            pieces.append(fields[field])
        else:
            pieces.append(_ESCAPES.get(escape, f"\\{escape}"))
        end = match.end()
    pieces.append(template[end:])
    return lambda record: "".join(piece if isinstance(piece, str) else piece(record) for piece in pieces)


def text_of(data: bytes | None) -> str:
    """Return bytes as text; what is no UTF-8 is escaped, and a tombstone's value is "null"."""
    return "null" if data is None else data.decode("utf-8", "backslashreplace")


def _named_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
