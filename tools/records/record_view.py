"""A record as it was read, and as JSON. Pure.

Rules: bytes that are no UTF-8 are base64 in JSON, under a name of their own. The client library does not give names
of headers that are no UTF-8: the record says so, and is shown without its headers.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

NO_TIMESTAMP = -1
_APPEND_TIME = 2  # confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
_headers = methodcaller("headers")  # unlike `message.headers()`, it always looks whether an error is set
Headers = tuple[tuple[str, bytes | None], ...]


class UnreadableHeaders(ValueError):
    """A header of a record has a name that is no UTF-8; the text is the name, escaped."""


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
    unreadable_name: str | None = None
    """The name of a header, escaped, because of which none could be read."""

    @classmethod
    def of(cls, message: Any) -> RecordView:
        """Of a message of the client library."""
        timestamp_type, timestamp_ms = message.timestamp()
        headers: Headers = ()
        unreadable = None
        try:
            headers = headers_of(message)
        except UnreadableHeaders as error:
            unreadable = str(error)
        return cls(
            message.topic(),
            message.partition(),
            message.offset(),
            timestamp_ms,
            message.key(),
            message.value(),
            headers,
            timestamp_type == _APPEND_TIME,
            unreadable,
        )

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
        }
        shown |= _named_bytes("key", self.key) | _named_bytes("value", self.value)
        if self.unreadable_name is not None:
            return shown | {"headers": None, "unreadable_header": self.unreadable_name}
        shown["headers"] = [{"name": name, **_named_bytes("value", value)} for name, value in self.headers]
        return shown


def headers_of(message: Any) -> Headers:
    """Return the headers of a message of the client library, which may be asked once. Raises UnreadableHeaders."""
    try:
        return tuple(_headers(message) or ())
    except (UnicodeDecodeError, SystemError) as error:  # the library returns None while its error is set
        cause = error if isinstance(error, UnicodeDecodeError) else error.__cause__
        if not isinstance(cause, UnicodeDecodeError):
            raise
        raise UnreadableHeaders(cause.object.decode("utf-8", "backslashreplace")) from None


def _named_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
