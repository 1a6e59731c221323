"""What schemas and decoders are to each other: a registered schema, what a decoder returns, and how one fails. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol


class DecodeError(ValueError):
    """A record that is not what its schema says, or that names no usable schema. The message is for people."""


class RegistryUnavailable(ConnectionError):
    """No registry answered, or not as one does."""


class SchemaKind(Enum):
    """The types of schemas, by the registry's names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class ReferencedSchema(NamedTuple):
    """A schema that another one refers to by `name`: the full name of an Avro type, the path of an import of Protobuf."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry gives it. `text` is JSON, or for Protobuf the serialized file in base64. `references` has each
    schema behind those that it refers to itself."""

    schema_id: int
    kind: SchemaKind
    text: str
    references: tuple[ReferencedSchema, ...] = ()


class RegistryValue(NamedTuple):
    """`value` is what `json.dumps` takes. `name` is that of the record or message, empty where there is none."""

    value: Any
    schema_id: int
    kind: SchemaKind
    name: str


class Decoder(Protocol):
    """Decodes what stands behind the schema's id in a record."""

    def decode(self, payload: memoryview, *, is_exact: bool = False) -> tuple[Any, str]:
        """Return the value, and the name of its type. `is_exact`: in the form that Confluent's REST Proxy gives, which names
        the branch of each union of Avro and leaves numbers as they are stored; else the form that people read. Raises
        DecodeError."""
        ...
