"""All message classes, and random instances of them that a given version can carry."""

from __future__ import annotations

import importlib
import pkgutil
import random
from types import ModuleType
from typing import Any

import protocol.messages
import protocol.stored
from protocol.errors import ErrorCode
from protocol.fields import Field
from protocol.primitives import ZERO_UUID
from protocol.schema import Request, Response, VersionedMessage
from protocol.stored.stored import Stored

_INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
_ALWAYS_SET = ("expiry_timestamp_ms", "issue_timestamp_ms", "max_timestamp_ms", "transaction_start_time_ms")
_LATEST_MS = 4_000_000_000_000  # the year 2096, which every library's date type holds
_ERROR_CODES = [int(code) for code in ErrorCode if code <= ErrorCode.INVALID_REGISTRATION]
_ALPHABET = "abcXYZ019._-äß€𝄞"


def modules() -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for package in (protocol.messages, protocol.stored)
        for module in pkgutil.iter_modules(package.__path__)
    ]


def message_classes() -> list[type[VersionedMessage]]:
    abstract = (Request, Response, Stored, VersionedMessage)
    return sorted(
        {
            value
            for module in modules()
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, VersionedMessage) and value not in abstract
        },
        key=lambda cls: cls.__name__,
    )


def classes_and_versions() -> list[tuple[type[VersionedMessage], int]]:
    return [(cls, version) for cls in message_classes() for version in range(cls.min_version, cls.max_version + 1)]


def instance(cls: Any, version: int, source: random.Random, *, longest: int = 3) -> Any:
    """Fields that the version carries are random, the rest keep their defaults. Arrays hold 0..`longest` elements."""
    values: dict[str, object] = {}
    for field in cls.__fields__:
        if field.versions.covers(version):
            values[field.name] = _value(field, version, source, longest)
    return cls(**values)


def smallest(cls: Any, version: int) -> Any:
    """Everything null, empty or zero; tagged fields are not sent."""
    values: dict[str, object] = {}
    for field in cls.__fields__:
        if not field.versions.covers(version) or field.tag is not None:
            continue
        if field.nullable.covers(version):
            values[field.name] = None
        elif field.kind == "struct":
            values[field.name] = smallest(field.element, version)
        else:
            values[field.name] = empty_value(field.kind)
    return cls(**values)


def empty_value(kind: str) -> object:
    return {"array": [], "string": "", "bytes_": b"", "records": b"", "uuid": ZERO_UUID, "bool_": False}.get(kind, 0)


def text(source: random.Random, longest: int = 8) -> str:
    return "".join(source.choice(_ALPHABET) for _ in range(source.randint(0, longest)))


def _value(field: Field, version: int, source: random.Random, longest: int) -> object:
    if field.nullable.covers(version) and source.random() < 0.25:
        return None
    if field.kind == "array":
        return [_element(field, version, source, longest) for _ in range(source.randint(0, longest))]
    if field.kind == "struct":
        return instance(field.element, version, source, longest=longest)
    return _scalar(field.kind, field.name, source)


def _element(field: Field, version: int, source: random.Random, longest: int) -> object:
    if isinstance(field.element, str):
        return _scalar(field.element, field.name, source)
    return instance(field.element, version, source, longest=longest)


def _scalar(kind: str, name: str, source: random.Random) -> object:
    if kind == "string":
        return text(source, 200 if source.random() < 0.05 else 8)
    if kind in ("bytes_", "records"):
        return source.randbytes(source.choice([0, 1, 5, 126, 127, 128, 300]))
    if kind == "uuid":
        return source.choice([ZERO_UUID, source.randbytes(16)])
    if kind == "bool_":
        return source.random() < 0.5
    if kind == "float64":
        return source.uniform(-1e9, 1e9)
    if name.endswith("error_code"):
        return source.choice(_ERROR_CODES)
    if kind == "int64" and (name.endswith(("_ms", "timestamp"))):
        moment = source.randint(0, _LATEST_MS)
        return moment if name in _ALWAYS_SET else source.choice([-1, moment])
    low, high = _INTEGERS[kind]
    return source.choice([0, 1, -1 if low < 0 else 2, source.randint(low, high), low, high])
