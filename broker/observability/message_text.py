"""A message of the protocol as a text for the log: JSON of its fields, short, without secrets. Pure.

Rules: bytes are shown by their number only: records, keys, tokens, passwords and salts are bytes. Values of settings, which may
be passwords, are hidden. No more than ELEMENTS_MAX values are visited, however large the message is; what is left out is
counted, and a text is cut after TEXT_CHARACTERS_MAX.
Source: Kafka RequestConvertToJson, RequestChannel.Request.loggableRequest.
"""

from __future__ import annotations

import json
import math

from config.errors import HIDDEN
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.primitives import uuid_to_text
from protocol.schema import Message

ELEMENTS_MAX = 500
LIST_ELEMENTS_MAX = 50
TEXT_CHARACTERS_MAX = 200
_SECRETS = {alter_configs.AlterableConfig: "value", incremental_alter_configs.AlterableConfig: "value"}


def message_text(message: Message) -> str:
    """Return `{"group_id":"g","topics":[...]}`."""
    return json.dumps(_MessageWalk().shown(message), ensure_ascii=False, separators=(",", ":"))


class _MessageWalk:
    """One walk through a message; `left` values may still be visited."""

    def __init__(self) -> None:
        self.left = ELEMENTS_MAX

    def shown(self, value: object, kind: str = "") -> object:
        self.left -= 1
        match value:
            case Message():
                return self._fields(value)
            case list() | tuple():
                return self._elements(value, kind)
            case str():
                return value if len(value) <= TEXT_CHARACTERS_MAX else f"{value[:TEXT_CHARACTERS_MAX]}..."
            case bytes() | bytearray() | memoryview():
                return uuid_to_text(bytes(value)) if kind == "uuid" else f"<{memoryview(value).nbytes} bytes>"
            case None | bool() | int():
                return value
            case float():
                return value if math.isfinite(value) else str(value)
            case _:
                return f"<{type(value).__name__}>"

    def _fields(self, message: Message) -> dict[str, object]:
        secret, fields = _SECRETS.get(type(message)), {}
        for field in message.__fields__:
            value = getattr(message, field.name)
            is_hidden = field.name == secret and value is not None
            fields[field.name] = HIDDEN if is_hidden else self.shown(value, _kind(field.kind, field.element))
        return fields

    def _elements(self, values: list[object] | tuple[object, ...], kind: str) -> list[object]:
        elements: list[object] = []
        for value in values[:LIST_ELEMENTS_MAX]:
            if self.left <= 0:
                break
            elements.append(self.shown(value, kind))
        if len(elements) < len(values):
            elements.append(f"<{len(values) - len(elements)} more>")
        return elements


def _kind(kind: str, element: object) -> str:
    """Return the kind of a field's values: of an array, that of its elements."""
    return element if isinstance(element, str) else kind
