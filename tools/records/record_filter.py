"""Which records are wanted: by key, headers, a part of the value, fields of its JSON, timestamp. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from tools.records.record_view import RecordView, UnreadableHeaders, headers_of

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field of a JSON document, and the text that its value must have: "7", "true" and "null" are also numbers and so on."""

    steps: tuple[str | int, ...]
    text: str

    @classmethod
    def parse(cls, given: str) -> JsonField:
        """From `order.items[0].sku=A7`; "$." in front is accepted. Raises click.BadParameter."""
        path, separator, text = given.partition("=")
        path = path.strip().removeprefix("$").removeprefix(".")
        steps = tuple(name if name else int(index) for name, index in _STEP.findall(path))
        if not separator or not steps or _STEP.sub("", path).strip("."):
            raise click.BadParameter(f"{given!r} is not of the form order.items[0].sku=VALUE", param_hint="--json-path")
        return cls(steps, text)

    def is_in(self, document: Any) -> bool:
        value = document
        for step in self.steps:
            if isinstance(step, int):
                value = value[step] if isinstance(value, list) and step < len(value) else _MISSING
            else:
                value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
            if value is _MISSING:
                return False
        return value == self.text if isinstance(value, str) else json.dumps(value) == self.text


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """All that is given must hold."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    value_part: bytes | None = None
    fields: tuple[JsonField, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    """Timestamps from the first on, and before the second."""

    @classmethod
    def of(
        cls, key: bytes | None, headers: Iterable[str], value_contains: str | None, paths: Iterable[str] = ()
    ) -> RecordFilter:
        """From the bytes of the key, and texts of options. Raises click.BadParameter."""
        pairs = []
        for text in headers:
            name, separator, value = text.partition("=")
            if not separator:
                raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint="--header")
            pairs.append((name, value.encode()))
        return cls(
            key,
            tuple(pairs),
            None if value_contains is None else value_contains.encode(),
            tuple(JsonField.parse(path) for path in paths),
        )

    def takes(self, record: RecordView) -> bool:
        """Raises UnreadableHeaders where headers are wanted and cannot be read."""
        if self.headers and record.unreadable_name is not None:
            raise UnreadableHeaders(record.unreadable_name)
        return self._is_in_time(record.timestamp_ms) and self._takes(record.key, record.value, record.headers)

    def takes_message(self, message: Any) -> bool:
        """As `takes`, for a message of the client library: most are not wanted, and need no other object. Raises
        UnreadableHeaders."""
        if self.key is not None and message.key() != self.key:
            return False
        if not self._is_in_time(message.timestamp()[1]):
            return False
        return self._takes(self.key, message.value(), headers_of(message) if self.headers else ())

    def _is_in_time(self, timestamp_ms: int) -> bool:
        if self.since_ms is not None and timestamp_ms < self.since_ms:
            return False
        return self.until_ms is None or timestamp_ms < self.until_ms

    def _takes(self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> bool:
        if self.key is not None and key != self.key:
            return False
        if self.value_part is not None and self.value_part not in (value or b""):
            return False
        if self.headers and not all(header in headers for header in self.headers):
            return False
        return not self.fields or self._has_fields(value)

    def _has_fields(self, value: bytes | None) -> bool:
        try:
            document = json.loads(value or b"")
        except (ValueError, RecursionError):
            return False
        return all(field.is_in(document) for field in self.fields)
