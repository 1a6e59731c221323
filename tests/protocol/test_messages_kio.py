"""Bytes and fields against kio, an independent implementation: every message and version that both have."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import random
import types
import typing
import uuid
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, VersionedMessage
from tests.protocol.instances import classes_and_versions, instance, smallest
from tests.protocol.names import snake_case

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kio_class(cls: type[VersionedMessage], version: int) -> type | None:
    if issubclass(cls, Request | Response):
        name = snake_case(cls.api_name)
        kind = EntityType.request if issubclass(cls, Request) else EntityType.response
    else:
        name, kind = snake_case(cls.__name__), EntityType.data
    if kind not in schema_name_map.get(name, {}).get(version, {}):
        return None
    return load_entity_schema(name, version, kind)  # type: ignore[arg-type]


CASES = [(cls, version, kio) for cls, version in classes_and_versions() if (kio := kio_class(cls, version)) is not None]


def our_name(theirs: str, message: Message | type[Message]) -> str:
    """kio drops the unit where the type tells it, and appends "_" to Python's own names."""
    theirs = theirs.removesuffix("_")
    return theirs if hasattr(message, theirs) else f"{theirs}_ms"


def plain(theirs: object, ours: object) -> object:
    """kio's value in the form of ours."""
    if isinstance(theirs, datetime.timedelta):
        return theirs // datetime.timedelta(milliseconds=1)
    if isinstance(theirs, datetime.datetime):
        return (theirs - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(theirs, uuid.UUID):
        return theirs.bytes
    if isinstance(theirs, enum.Enum):
        return theirs.value
    if theirs is None and isinstance(ours, bytes):
        return ZERO_UUID
    if theirs is None and isinstance(ours, int):
        return -1  # a moment that is not set
    return theirs


def assert_same(ours: object, theirs: Any) -> None:
    if isinstance(ours, Message):
        for field in dataclasses.fields(theirs):
            assert_same(getattr(ours, our_name(field.name, ours)), getattr(theirs, field.name))
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        assert ours == plain(theirs, ours)


def test_most_are_compared() -> None:
    assert len(CASES) >= 450


@pytest.mark.parametrize(("cls", "version", "kio"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_same_bytes_and_values(cls: type[VersionedMessage], version: int, kio: Any) -> None:
    source = random.Random(f"kio {cls.__name__} {version}")
    read: Any = entity_reader(kio)
    write: Any = entity_writer(kio)
    for message in [smallest(cls, version), *(instance(cls, version, source) for _ in range(6))]:
        wire = message.encode(version)
        theirs, size = read(wire, 0)
        assert size == len(wire)
        assert_same(message, theirs)
        buffer = io.BytesIO()
        write(buffer, theirs)
        assert buffer.getvalue() == wire


def nested(annotation: Any) -> tuple[bool, type | None]:
    """Whether null is among the values, and the dataclass inside."""
    optional = False
    if isinstance(annotation, types.UnionType):
        optional = type(None) in typing.get_args(annotation)
        (annotation,) = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
    if typing.get_origin(annotation) is tuple:
        annotation = typing.get_args(annotation)[0]
    return optional, annotation if dataclasses.is_dataclass(annotation) and isinstance(annotation, type) else None


def compare_table(ours: type[Message], theirs: type, version: int) -> None:
    fields = {field.name: field for field in ours.__fields__ if field.versions.covers(version)}
    their_fields = dataclasses.fields(theirs)
    hints = typing.get_type_hints(theirs)
    assert {our_name(field.name, ours) for field in their_fields} == set(fields)
    for theirs_field in their_fields:
        field = fields[our_name(theirs_field.name, ours)]
        optional, inner = nested(hints[theirs_field.name])
        assert field.tag == theirs_field.metadata.get("tag")
        if field.kind not in ("uuid", "int64"):  # there kio's None means the zero uuid, and -1
            assert field.nullable.covers(version) == optional, field.name
        if field.kind in ("struct", "array"):
            assert (inner is not None) == isinstance(field.element, type)
            if inner is not None:
                compare_table(field.element, inner, version)  # type: ignore[arg-type]
        default = theirs_field.default
        if default is not dataclasses.MISSING and field.kind not in ("struct", "array"):
            assert field.default == plain(default, field.default), field.name


@pytest.mark.parametrize(("cls", "version", "kio"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_same_tables(cls: type[VersionedMessage], version: int, kio: Any) -> None:
    assert kio.__flexible__ == cls.is_flexible(version)
    if issubclass(cls, Request | Response):
        assert kio.__api_key__ == cls.api_key
    compare_table(cls, kio, version)
