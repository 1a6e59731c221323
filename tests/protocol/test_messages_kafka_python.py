"""Bytes, fields and tables against kafka-python: its codec, and the definitions of Apache Kafka that it carries."""

from __future__ import annotations

import importlib.resources
import inspect
import random
import warnings
from functools import cache
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way of reading its resources
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.schemas import load_json

from protocol.fields import REQUIRED, Field, Versions
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.primitives import ZERO_UUID, uuid_from_text
from protocol.schema import Message, Request, Response, VersionedMessage
from tests.protocol.instances import classes_and_versions, instance, message_classes, smallest
from tests.protocol.names import snake_case

RESOURCES = {
    path.name.removesuffix(".json")
    for path in importlib.resources.files("kafka.protocol.schemas.resources").iterdir()
    if path.name.endswith(".json")
}
TABLES = [cls for cls in message_classes() if cls.__name__ in RESOURCES]


@cache
def definition(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return load_json(name)


@cache
def their_class(name: str) -> Any:
    for part in ("admin", "consumer", "metadata", "producer", "sasl"):
        found = getattr(getattr(kafka.protocol, part), name, None)
        if inspect.isclass(found):
            return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__})


def is_compared(cls: type[VersionedMessage], version: int) -> bool:
    if not issubclass(cls, Request | Response) or cls.__name__ not in RESOURCES:
        return False
    return version <= Versions.parse(definition(cls.__name__)["validVersions"]).last


CASES = [(cls, version) for cls, version in classes_and_versions() if is_compared(cls, version)]


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    if isinstance(ours, Message):
        if theirs is None:
            assert ours == type(ours)()  # a tagged struct that was not sent
            return
        for field in ours.__fields__:
            if field.versions.covers(version) and not field.name.endswith("authorized_operations"):  # theirs is a set
                assert_same(getattr(ours, field.name), getattr(theirs, field.name), version)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, version)
    elif hasattr(theirs, "bytes") or (theirs is None and ours == ZERO_UUID):
        assert theirs is None or ours == theirs.bytes  # a uuid
    else:
        assert ours == theirs


def test_most_are_compared() -> None:
    assert len(CASES) >= 400 and len(TABLES) >= 90


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_same_bytes_and_values(cls: type[VersionedMessage], version: int) -> None:
    source = random.Random(f"kafka-python {cls.__name__} {version}")
    for message in [smallest(cls, version), *(instance(cls, version, source) for _ in range(5))]:
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # else kafka-python takes it for version 0
        wire = message.encode(version)
        theirs = their_class(cls.__name__).decode(wire, version=version)
        assert_same(message, theirs, version)
        theirs._header = None  # its encoder looks for one
        assert bytes(theirs.encode(version=version)) == wire


def default_of(row: dict[str, Any]) -> object:
    """The default that the JSON names, or Kafka's implicit one."""
    kind, default = row["type"], row.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(default).lower() == "true"
    if kind in ("string", "bytes", "records"):
        empty = {"string": "", "bytes": b"", "records": None}[kind]
        return empty if default is None else default
    if kind == "uuid":
        return ZERO_UUID if default is None else uuid_from_text(str(default))
    return 0 if default is None else float(default) if kind == "float64" else int(str(default), 0)


def clipped(text: str, last: int) -> tuple[int, int]:
    first, end = Versions.parse(text)
    return (first, min(end, last)) if first <= last else (0, -1)


def compare_field(field: Field, row: dict[str, Any], within: tuple[int, int]) -> None:
    last = within[1]
    kind = "array" if row["type"].startswith("[]") else "struct" if "fields" in row else row["type"]
    assert field.kind.removesuffix("_") == kind
    assert (field.versions.first, min(field.versions.last, last)) == clipped(row["versions"], last)
    nullable = clipped(row.get("nullableVersions", "none"), last)
    assert (field.nullable.first, min(field.nullable.last, last)) == nullable
    assert field.tag == row.get("tag")
    if field.ignorable:
        assert row.get("ignorable", False)
    elif field.versions.first > within[0] or field.versions.last < last:  # it may be absent
        assert not row.get("ignorable", False)
    if field.default is not REQUIRED and field.kind != "struct":
        assert field.default == default_of(row)
    else:
        assert "default" not in row or field.kind == "struct"
    if "fields" in row:
        assert isinstance(field.element, type)
        inner = clipped(row["versions"], last)
        compare_rows(field.element, row["fields"], (max(inner[0], within[0]), min(inner[1], within[1])))


def compare_rows(cls: type[Message], rows: list[dict[str, Any]], within: tuple[int, int]) -> None:
    first, last = within
    rows = [row for row in rows if first <= clipped(row["versions"], last)[1]]
    fields = [field for field in cls.__fields__ if field.versions.last >= first]
    assert [field.name for field in fields] == [snake_case(row["name"]) for row in rows]
    for field, row in zip(fields, rows, strict=True):
        compare_field(field, row, within)


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_same_tables(cls: type[VersionedMessage]) -> None:
    theirs = definition(cls.__name__)
    assert Versions.parse(theirs["flexibleVersions"])[:1] == cls.flexible_versions[:1]
    if issubclass(cls, Request | Response):
        assert theirs["apiKey"] == cls.api_key
    first = Versions.parse(theirs["validVersions"]).first
    compare_rows(cls, theirs["fields"], (first, cls.max_version))
