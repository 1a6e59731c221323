"""How the bytes of keys and values are meant: text, numbers as Java's serializers write them, or bytes as hex and base64.

Rules: pure but for the options. In every form a value is text: what `consume` prints with a deserializer, `produce` reads with
the serializer of that name. Names are those below, or those of Kafka's classes:
`org.apache.kafka.common.serialization.LongDeserializer` is `long`. None stays.
Source: org.apache.kafka.common.serialization.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from runtime.command_line.failure import Failure
from runtime.texts import count_text
from tools.records.record_view import RecordView

_CLASS = re.compile(
    r"(?:org\.apache\.kafka\.common\.serialization\.)?(\w+?)(?:Serializer|Deserializer)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Serialization:
    """Both functions raise ValueError or struct.error for what they cannot take."""

    name: str
    decode: Callable[[bytes], str]
    encode: Callable[[str], bytes]

    def to_text(self, data: bytes | None) -> bytes | None:
        """Return the bytes of the text. Raises ValueError."""
        if data is None or self is STRING:
            return data
        try:
            return self.decode(data).encode()
        except (ValueError, struct.error):
            raise ValueError(f"{count_text(len(data), 'byte', 'is', 'are')} no {self.name}") from None

    def to_bytes(self, text: bytes | None) -> bytes | None:
        """Return what is written for a text. Raises ValueError."""
        if text is None or self is STRING:
            return text
        try:
            return self.encode(text.decode())
        except (ValueError, struct.error):
            raise ValueError(f"{text.decode(errors='backslashreplace')!r} is no {self.name}") from None


def _number(name: str, form: str, parse: Callable[[str], Any]) -> Serialization:
    packing = struct.Struct(form)
    return Serialization(name, lambda data: str(packing.unpack(data)[0]), lambda text: packing.pack(parse(text)))


STRING = Serialization("string", bytes.decode, str.encode)
SERIALIZATIONS = {
    each.name: each
    for each in (
        STRING,
        _number("short", ">h", int),
        _number("integer", ">i", int),
        _number("long", ">q", int),
        _number("float", ">f", float),
        _number("double", ">d", float),
        Serialization("hex", bytes.hex, bytes.fromhex),
        Serialization("base64", lambda data: base64.b64encode(data).decode(), partial(base64.b64decode, validate=True)),
    )
}  # fmt: skip


_TEXTS = dict.fromkeys(("bytearray", "bytebuffer", "bytes", "uuid"), STRING)
"""Kafka's names for bytes that are taken as they are, and for UUIDs, which are written as text."""


def serialization_of(name: str, option: str | None) -> Serialization:
    """Return one of SERIALIZATIONS. Raises click.BadParameter."""
    match = _CLASS.fullmatch(name)
    found = (SERIALIZATIONS | _TEXTS).get(match[1].lower()) if match is not None else None
    if found is None:
        raise click.BadParameter(f"{name!r} is none of {', '.join(SERIALIZATIONS)}", param_hint=option)
    return found


class SerializationType(click.ParamType[Serialization]):
    """One of SERIALIZATIONS by its name, or by that of Kafka's class."""

    name = "serialization"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Serialization:
        if isinstance(value, Serialization):
            return value
        del param, ctx
        return serialization_of(value, None)


def serialization_options(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command `--key-KIND` and `--value-KIND`, as arguments `key_form` and `value_form`; KIND is "serializer" or
    "deserializer"."""

    def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
        for part in ("value", "key"):
            function = click.option(
                f"--{part}-{kind}", f"{part}_form", type=SerializationType(), default=STRING.name, metavar="NAME",
                help=f"what the bytes of the {part} are: {', '.join(SERIALIZATIONS)} [string]",
            )(function)  # fmt: skip
        return function

    return with_options


def decoded(record: RecordView, key_form: Serialization, value_form: Serialization) -> RecordView:
    """Return the record with key and value as text. Raises Failure that names the record."""
    if key_form is STRING and value_form is STRING:
        return record
    try:
        return replace(record, key=key_form.to_text(record.key), value=value_form.to_text(record.value))
    except ValueError as error:
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        raise Failure(f"the record of {place} cannot be shown: {error}") from error


def key_bytes(key: str | None, form: Serialization) -> bytes | None:
    """Return the bytes of a key that an option names. Raises click.BadParameter."""
    try:
        return form.to_bytes(None if key is None else key.encode())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--key") from None
