"""Values of Protobuf, by the serialized form of their schema. Pure: protobuf's own reader, with a pool for each schema.

Rules: the reader bounds the depth of a message, and `_Budget` the values that are printed for it. Files that Google and
Confluent keep in their clients, and that a registry therefore does not hold, are given here.
Source: Confluent ProtobufSchemaUtils.toJson (every field that has no presence is printed, in lower camel case).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as MessageError
from google.protobuf.message import Message

from web.schemas.contract import DecodeError, RegisteredSchema
from web.schemas.framing import message_path

MAX_VALUES: Final = 2_000_000
_ERRORS: Final = (ArithmeticError, LookupError, MessageError, RecursionError, TypeError, ValueError, json_format.Error)
"""What protobuf raises for a file or a message that is wrong."""
_OF_GOOGLE: Final = (
    any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
)  # fmt: skip
_META: Final = "confluent/meta.proto"
"""Options of Confluent's for fields, which do not change how a message is read."""


def _decimal_file() -> descriptor_pb2.FileDescriptorProto:
    """Return `confluent/type/decimal.proto`."""
    file = descriptor_pb2.FileDescriptorProto(
        name="confluent/type/decimal.proto", package="confluent.type", syntax="proto3"
    )
    message = file.message_type.add(name="Decimal")
    types = (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_INT32)
    for number, (name, kind) in enumerate(zip(("value", "precision", "scale"), types, strict=True), 1):
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptor.LABEL_OPTIONAL)
    return file


class ProtobufDecoder:
    def __init__(self, schema: RegisteredSchema) -> None:
        """Raises DecodeError."""
        self._classes: dict[tuple[int, ...], type[Message]] = {}
        self._pool = DescriptorPool()
        try:
            files = {each.name: _file(each.name, each.text) for each in schema.references}
            main = _file(f"schema-{schema.schema_id}.proto", schema.text)
            for known in _known_files():
                files.setdefault(known.name, known)
            self._add(main, files, set())
            self._file: FileDescriptor = self._pool.FindFileByName(main.name)
        except _ERRORS as error:
            raise DecodeError(f"schema {schema.schema_id} cannot be used: {error}") from None

    def decode(self, payload: memoryview, *, is_exact: bool = False) -> tuple[Any, str]:
        """Raises DecodeError."""
        path, content = message_path(payload)
        kind = self._class(path)
        try:
            message = kind.FromString(content.tobytes())
            _Budget(MAX_VALUES).take(message)
            value = json_format.MessageToDict(
                message, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except _ERRORS as error:
            raise DecodeError(f"the value is not as its schema says: {error}") from None
        return value, kind.DESCRIPTOR.full_name

    def _class(self, path: tuple[int, ...]) -> type[Message]:
        if path not in self._classes:
            found: Descriptor | None = None
            for index in path:
                inner = list(self._file.message_types_by_name.values() if found is None else found.nested_types)
                if not 0 <= index < len(inner):
                    raise DecodeError(f"the schema has no message at {list(path)}")
                found = inner[index]
            assert found is not None
            self._classes[path] = message_factory.GetMessageClass(found)
        return self._classes[path]

    def _add(
        self,
        file: descriptor_pb2.FileDescriptorProto,
        files: dict[str, descriptor_pb2.FileDescriptorProto],
        added: set[str],
    ) -> None:
        """Add a file behind those that it imports. Raises LookupError for an import that nobody has, TypeError."""
        added.add(file.name)
        _drop_import(file, _META)
        for name in file.dependency:
            if name in added:
                continue
            if name not in files:
                raise LookupError(f"the registry does not give {name}, which it imports")
            self._add(files[name], files, added)
        self._pool.Add(file)


class _Budget:
    """Raises ValueError for a message that would be printed as more than so many values: a field without presence is printed
    where it is not set, too, so that a message of two bytes may have thousands."""

    def __init__(self, values: int) -> None:
        self._left = values

    def take(self, message: Message) -> None:
        self._left -= 1 + len(message.DESCRIPTOR.fields)
        if self._left < 0:
            raise ValueError("it has too many values to be shown")
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            for each in _messages(field, value):
                self.take(each)


def _messages(field: FieldDescriptor, value: Any) -> Iterable[Message]:
    if not field.is_repeated:
        return (value,)
    if field.message_type.GetOptions().map_entry:
        of_map = field.message_type.fields_by_name["value"]
        return value.values() if of_map.message_type is not None else ()
    found: Iterable[Message] = value
    return found


def _file(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    """Return a file under the name by which others import it. Raises ValueError, MessageError."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    file.name = name
    return file


def _known_files() -> Iterable[descriptor_pb2.FileDescriptorProto]:
    for module in _OF_GOOGLE:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        yield file
    yield _decimal_file()


def _drop_import(file: descriptor_pb2.FileDescriptorProto, name: str) -> None:
    """Take an import out, with what refers to imports by their position."""
    if name not in file.dependency:
        return
    gone = list(file.dependency).index(name)
    del file.dependency[gone]
    for positions in (file.public_dependency, file.weak_dependency):
        kept = [each - (each > gone) for each in positions if each != gone]
        del positions[:]
        positions.extend(kept)
