"""How Scala prints collections: Apache Kafka's error messages name them so, and tests of clients read these messages.

Rules: pure. Elements are printed in the given order; where Scala's own depends on hashes, callers sort.
Source: scala.collection.mutable.ArrayBuffer, mutable.HashMap, mutable.HashSet, immutable.Set of Scala 2.13.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

_LARGEST_SMALL_SET = 4
"""Immutable sets of more elements are of another class."""


def array_buffer(values: Sequence[object]) -> str:
    return _printed("ArrayBuffer", values)


def immutable_set(values: Collection[object]) -> str:
    return _printed("Set" if len(values) <= _LARGEST_SMALL_SET else "HashSet", values)


def hash_set(values: Iterable[object]) -> str:
    return _printed("HashSet", values)


def hash_map_of_buffers(values: Mapping[int, Sequence[object]]) -> str:
    return _printed("HashMap", (f"{key} -> {array_buffer(value)}" for key, value in values.items()))


def _printed(name: str, values: Iterable[object]) -> str:
    return f"{name}({', '.join(map(str, values))})"
