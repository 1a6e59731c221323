"""Stored messages as JSON values, under Kafka's names of their fields. Pure.

Bytes are base64, and UUIDs the same as Kafka prints them; tagged fields are left out where they have their default.
Source: the JsonConverter classes that Kafka generates; kafka-dump-log.sh.
"""

from __future__ import annotations

import base64
from typing import Final

from protocol.primitives import DecodeError, uuid_to_text
from protocol.schema import Message
from protocol.stored.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.stored.stored import VERSION_BYTES, stored_version

CONSUMER_PROTOCOL: Final = "consumer"


def message_fields(message: Message, version: int) -> dict[str, object]:
    """Return the fields of `version` under Kafka's names, as JSON values."""
    return {
        _camel(field.name): _value(getattr(message, field.name), version, is_uuid="uuid" in (field.kind, field.element))
        for field in message.__fields__
        if field.versions.covers(version) and (field.tag is None or getattr(message, field.name) != field.default)
    }


def open_members(group: dict[str, object]) -> None:
    """Decode what the members of a classic group tell each other, in the fields of a GroupMetadataValue; another protocol's
    bytes stay."""
    members = group["members"]
    if group["protocolType"] != CONSUMER_PROTOCOL or not isinstance(members, list):
        return
    for member in members:
        for name, kind in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            content = base64.b64decode(member[name])
            try:
                version = stored_version(content)
                # Bytes that follow belong to a later version.
                message, _ = kind.decoder(version)(content, VERSION_BYTES, len(content))
            except DecodeError:
                continue  # another protocol of that name: keep its bytes
            member[name] = message_fields(message, version)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _value(value: object, version: int, *, is_uuid: bool) -> object:
    match value:
        case Message():
            return message_fields(value, version)
        case list():
            return [_value(each, version, is_uuid=is_uuid) for each in value]
        case bytes() if is_uuid:
            return uuid_to_text(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case _:
            return value
