"""Decodes the keys and values of one topic as far as the wanted formats leave it to decoders: the schema registry,
internal topics.

Rules: a record that cannot be decoded is shown as its bytes, with a note that says why. Conditions look at what was
decoded where the record is decoded, else at the bytes; with the format hex at the digits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from web.messages import internal_topics
from web.messages.conditions import Contents
from web.messages.shown import Decoded, Format
from web.schemas.contract import DecodeError, RegistryUnavailable
from web.schemas.framing import framed

if TYPE_CHECKING:
    from protocol.records.record import Record
    from web.schemas.registry import SchemaRegistry

_BY_SCHEMA = (Format.AUTO, Format.SCHEMA)
_INTERNAL = (Format.AUTO, Format.INTERNAL)


@dataclass(frozen=True, slots=True)
class RecordDecoding:
    """`schemas` is None without a registry."""

    topic: str
    key_format: Format
    value_format: Format
    schemas: SchemaRegistry | None

    @property
    def decodes_key(self) -> bool:
        """Whether conditions may look at something else than the stored bytes."""
        return self._decodes(self.key_format)

    @property
    def decodes_value(self) -> bool:
        return self._decodes(self.value_format)

    def _decodes(self, wanted: Format) -> bool:
        by_schema = self.schemas is not None and wanted in _BY_SCHEMA
        is_internal = internal_topics.is_internal(self.topic) and wanted in _INTERNAL
        return by_schema or is_internal or wanted is Format.HEX

    async def decoded(self, record: Record) -> tuple[Decoded | None, Decoded | None]:
        """Return what decoders made of key and value; None where none is asked."""
        if internal_topics.is_internal(self.topic):
            return (
                internal_topics.decode_key(self.topic, record.key) if self.key_format in _INTERNAL else None,
                internal_topics.decode_value(self.topic, record.key, record.value)
                if self.value_format in _INTERNAL
                else None,
            )
        return (
            await self._by_schema(record.key, self.key_format),
            await self._by_schema(record.value, self.value_format),
        )

    def contents(self, record: Record, key: Decoded | None, value: Decoded | None) -> Contents:
        """Return what conditions look at."""
        return Contents(
            _looked_at(record.key, self.key_format, key),
            _looked_at(record.value, self.value_format, value),
            record.headers,
        )

    async def _by_schema(self, data: bytes | None, wanted: Format) -> Decoded | None:
        if data is None or wanted not in _BY_SCHEMA:
            return None
        return await decoded_by_schema(data, self.schemas)


async def decoded_by_schema(data: bytes, schemas: SchemaRegistry | None) -> Decoded | None:
    """Return what the registry makes of bytes; None for those without Confluent's framing."""
    frame = framed(data)
    if frame is None:
        return None
    if schemas is None:
        return Decoded("schema", None, frame.schema_id, "schema.registry.url names no schema registry")
    try:
        found = schemas.decode_known(data) or await schemas.decode(data)
    except (DecodeError, RegistryUnavailable) as error:
        return Decoded("schema", None, frame.schema_id, str(error))
    kind = "jsonschema" if found.kind.value == "JSON" else found.kind.value.lower()
    return Decoded(kind, json.dumps(found.value, ensure_ascii=False), found.schema_id)


def _looked_at(data: bytes | None, wanted: Format, decoded: Decoded | None) -> bytes | None:
    if data is None:
        return None
    if wanted is Format.HEX:
        return data.hex().encode()
    if decoded is not None and decoded.text is not None:
        return decoded.text.encode("utf-8", "surrogatepass")
    return data
