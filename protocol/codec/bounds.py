"""Computes the minimum size of an element on the wire, and its size in memory, with which a decoder refuses large counts.

No IO. A count is refused when that many of the smallest elements are more than the bytes left. An accepted count is charged
to the budget of elements: an element larger than `WEIGHT_BYTES` in memory counts as several, so that the budget bounds
memory, too. Elements of nested arrays are charged when they are read.
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.codec.source import FIXED, length_format, struct_of
from protocol.fields import Field, Struct

# The size of one value in memory without the bytes of its text (64-bit CPython 3.11 to 3.14, rounded up).
_VALUE_BYTES: Final = {
    "int8": 0, "bool_": 0, "int16": 32, "uint16": 32, "int32": 32, "uint32": 32, "int64": 32, "float64": 32, "uuid": 64,
    "string": 64, "bytes_": 48, "records": 208, "array": 80,
}  # fmt: skip
_REFERENCE_BYTES: Final = 8
_MESSAGE_BYTES: Final = 48  # the object's header, the collector's, and the reference in its list
WEIGHT_BYTES: Final = 96  # an element up to this size in memory counts once: 500,000 of them are 48 MB


def smallest_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Return the size in bytes of the shortest struct of this class in this version."""
    size = 1 if flexible else 0
    for field in cls.__fields__:
        if field.versions.covers(version) and field.tag is None:
            size += _smallest_field(field, version, flexible)
    return size


def _smallest_field(field: Field, version: int, flexible: bool) -> int:
    if field.kind in FIXED:
        return struct.calcsize(">" + FIXED[field.kind])
    if field.kind == "struct":
        if field.nullable.covers(version):
            return 1
        return smallest_size(struct_of(field), version, flexible)
    return 1 if flexible else struct.calcsize(">" + length_format(field.kind, flexible))


def weight(cls: type[Struct], version: int) -> int:
    """Return the number of elements that a struct of this class counts as: its size in memory without nested elements."""
    return -(-_memory(cls, version) // WEIGHT_BYTES)


def heaviest_element(cls: type[Struct], version: int) -> int:
    """Return the weight of the largest struct in a message's arrays, at any depth; 1 when there is none."""
    heaviest = 1
    for field in cls.__fields__:
        if not field.versions.covers(version):
            continue
        if field.kind == "array" and isinstance(field.element, type):
            element = field.element
            heaviest = max(heaviest, weight(element, version), heaviest_element(element, version))
        elif field.kind == "struct":
            heaviest = max(heaviest, heaviest_element(struct_of(field), version))
    return heaviest


def _memory(cls: type[Struct], version: int) -> int:
    size = _MESSAGE_BYTES
    for field in cls.__fields__:
        size += _REFERENCE_BYTES
        if field.kind == "array":
            size += _VALUE_BYTES["array"]  # an absent list is a list, too
        elif not field.versions.covers(version):
            continue
        elif field.kind == "struct":
            size += _memory(struct_of(field), version)
        else:
            size += _VALUE_BYTES[field.kind]
    return size
