"""The decoder of a registered schema, by its kind. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from web.schemas.avro import AvroDecoder
from web.schemas.contract import Decoder, RegisteredSchema, SchemaKind
from web.schemas.json_text import JsonSchemaDecoder
from web.schemas.protobuf import ProtobufDecoder

_DECODERS: Final[dict[SchemaKind, Callable[[RegisteredSchema], Decoder]]] = {
    SchemaKind.AVRO: AvroDecoder,
    SchemaKind.JSON: JsonSchemaDecoder,
    SchemaKind.PROTOBUF: ProtobufDecoder,
}


def decoder_of(schema: RegisteredSchema) -> Decoder:
    """Raises DecodeError for a schema that cannot be used."""
    return _DECODERS[schema.kind](schema)
