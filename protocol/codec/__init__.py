"""Compiles tables of fields into Python functions: a constructor for each class, decoders and encoders for each version.

Why generated source: Produce and Fetch decode and encode on every request, and an interpreter that walks the table
costs several times what the fields themselves cost. The generated functions are flat. The whole tree of nested
structs of one version is one function: no call for a nested struct, no test of a version, and neighbouring fields of
fixed size, together with the length or tag count that follows them, are one `struct` call. They are compiled on first
use and cached by the class. The source contains only names and numbers of our own tables, never input.

Bounds of a decoder (for any input): a count is refused when count * (smallest element of that version) exceeds the
bytes left; the sum of all counts, weighted so that memory stays bounded too (`bounds`), may not exceed
`max_elements`; every loop consumes input. Malformed input raises DecodeError and nothing else. As in Kafka, any
negative length of a nullable field is null, unknown tagged fields are skipped, and the last value of a repeated tag
counts. Unlike Kafka, a known tagged field must have exactly the size that precedes it.

A message without `records` is decoded from one bytes object, which is faster to index than a view; one with `records`
is decoded from a memoryview, and its record values are slices of that view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.codec.decoder import Decoder
from protocol.codec.encoder import Encoder
from protocol.codec.source import compiled, default_source
from protocol.fields import Struct


def compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """Return an `__init__` with one keyword argument a field."""
    names, parameters, body = _assignments(cls)
    return _function("__init__", ["self", *parameters], body or ["pass"], names, cls)


def compile_maker(cls: type[Struct]) -> Callable[..., Any]:
    """Return the constructor as a plain function: `make(...)` is `cls(...)`."""
    names, parameters, body = _assignments(cls)
    names |= {"new": object.__new__, "cls": cls}
    return _function("make", parameters, ["self = new(cls)", *body, "return self"], names, cls)


def _assignments(cls: type[Struct]) -> tuple[dict[str, object], list[str], list[str]]:
    """Return the parts of a constructor: (names used in its source, parameters after `self`, assignments of the fields)."""
    names: dict[str, object] = {"ABSENT": object()}
    parameters, body = [], []
    for field in cls.__fields__:
        default = default_source(field, names)
        if default is None:
            parameters.append(field.name)
        elif default == "[]":
            parameters.append(f"{field.name}=ABSENT")
            body.append(f"self.{field.name} = [] if {field.name} is ABSENT else {field.name}")
            continue
        else:
            parameters.append(f"{field.name}={default}")
        body.append(f"self.{field.name} = {field.name}")
    return names, ["*", *parameters] if parameters else [], body


def _function(
    name: str, parameters: list[str], body: list[str], names: dict[str, object], cls: type[Struct]
) -> Callable[..., Any]:
    source = f"def {name}({', '.join(parameters)}):\n    " + "\n    ".join(body) + "\n"
    return compiled(source, name, names, cls.__name__)


def compile_decoder(cls: type[Struct], version: int, flexible: bool) -> Callable[..., Any]:
    """Return `decode(data, position, max_elements) -> (message, position after it)`."""
    return Decoder(cls, version, flexible).compile()


def compile_encoder(cls: type[Struct], version: int, flexible: bool) -> Callable[..., Any]:
    """Return `encode(message, prefix) -> chunks`."""
    return Encoder(cls, version, flexible).compile()


def compile_array_encoder(element: type[Struct], version: int, flexible: bool) -> Callable[..., Any]:
    """Return `encode_array(items) -> Encoded`, for an array of such structs in a message of that version."""
    return Encoder(element, version, flexible).compile_array()
