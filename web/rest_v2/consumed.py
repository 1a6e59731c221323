"""A consumed record as it stands in an answer of REST v2.

Errors: DecodeError for a record that is not of the consumer's format, RegistryUnavailable.
"""

from __future__ import annotations

import json
from typing import Final

from client.reading.positions import ReadRecord
from web.rest_v2.embedded import to_json
from web.rest_v2.forms import EmbeddedFormat
from web.schemas.contract import DecodeError, SchemaKind
from web.schemas.registry import SchemaRegistry

_KINDS: Final = {
    EmbeddedFormat.AVRO: SchemaKind.AVRO,
    EmbeddedFormat.JSONSCHEMA: SchemaKind.JSON,
    EmbeddedFormat.PROTOBUF: SchemaKind.PROTOBUF,
}


async def consumed(found: ReadRecord, form: EmbeddedFormat, schemas: SchemaRegistry | None) -> bytes:
    """Return the record in JSON. Raises DecodeError with where it is, RegistryUnavailable."""
    record = found.record
    parts = []
    for what, data in (("key", record.key), ("value", record.value)):
        try:
            parts.append(await _embedded(data, form, schemas))
        except DecodeError as error:
            where = f"{found.topic}-{found.partition} at offset {record.offset}"
            raise DecodeError(f"the {what} of the record in {where} is not read as {form.value}: {error}") from None
    head = json.dumps({"topic": found.topic})[:-1].encode()
    tail = f'"partition": {found.partition}, "offset": {record.offset}}}'.encode()
    return b'%b, "key": %b, "value": %b, %b' % (head, parts[0], parts[1], tail)


async def _embedded(data: bytes | None, form: EmbeddedFormat, schemas: SchemaRegistry | None) -> bytes:
    if data is None or form not in _KINDS:
        return to_json(data, form)
    assert schemas is not None, "without a registry no such consumer is made"
    decoded = await schemas.decode(bytes(data), is_exact=True)
    if decoded.kind is not _KINDS[form]:
        raise DecodeError(f"its schema {decoded.schema_id} is of the type {decoded.kind.value}")
    return json.dumps(decoded.value).encode()
