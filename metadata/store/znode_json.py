"""JSON of nodes as Apache Kafka's encoders write it, and one error for invalid JSON. Pure.

Rules: pure. Apache Kafka encodes hash maps, so that the order of keys depends on Java's string hash and the kind of map.
Source: java.lang.String.hashCode, java.util.Properties, scala.collection.mutable.HashMap, immutable.HashMap; Kafka's Json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

INT32_MAX = 0x7FFFFFFF


def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number: over UTF-16 units."""
    value = 0
    if text.isascii():  # numbers of partitions, by the ten thousand
        for unit in text.encode():
            value = 31 * value + unit
        return value & 0xFFFFFFFF
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def _spread(text: str) -> int:
    value = java_hash(text)
    return value ^ (value >> 16)


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


def scala_map_order(keys: Iterable[str]) -> list[str]:
    """Return the order in which a Scala mutable.HashMap iterates over `keys`: by bucket of a table of 16 that doubles when
    adding would fill three quarters, and by hash within a bucket."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2

    def place(name: str) -> tuple[int, int]:
        spread = _spread(name)
        return spread & (buckets - 1), _signed(spread)

    return sorted(names, key=place)


# Up to so many entries an immutable Scala map keeps their order; a larger one is a tree of hashes, five bits a level.
_SCALA_SMALL_MAP = 4
_BITS_A_LEVEL = 5
_HASH_BITS = 32


def scala_immutable_map_order(keys: Iterable[str]) -> list[str]:
    """Return the order in which a Scala immutable.Map iterates over `keys`: as they were added while they are few, else by
    hash."""
    names = list(dict.fromkeys(keys))
    return names if len(names) <= _SCALA_SMALL_MAP else _tree_order(names, 0)


def _tree_order(names: list[str], shift: int) -> list[str]:
    """Iterate over one node of the hash tree: its entries, then those of its children."""
    if shift >= _HASH_BITS:
        return names
    places: dict[int, list[str]] = {}
    for name in names:
        places.setdefault(_improved(name) >> shift & (1 << _BITS_A_LEVEL) - 1, []).append(name)
    ordered = [places[place] for place in sorted(places)]
    below = (each for each in ordered if len(each) > 1)
    return [each[0] for each in ordered if len(each) == 1] + [
        name for each in below for name in _tree_order(each, shift + _BITS_A_LEVEL)
    ]


def _improved(text: str) -> int:
    mask = 0xFFFFFFFF
    value = java_hash(text)
    value = (value + (~(value << 9) & mask)) & mask
    value ^= value >> 14
    value = (value + (value << 4)) & mask
    return value ^ (value >> 10)


def java_map_order(keys: Iterable[str]) -> list[str]:
    """Return the order in which a Java Properties iterates over `keys`: by bucket of a table of 16 that doubles at three
    quarters, in order of insertion within a bucket."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(name) & (buckets - 1))


def encode_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def one_error(decode: Callable[P, T]) -> Callable[P, T]:
    """Decode a node of any writer. Every error is a ValueError."""

    @wraps(decode)
    def decoded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return decode(*args, **kwargs)
        except (TypeError, AttributeError, LookupError, OverflowError, RecursionError) as error:
            raise ValueError(f"not what it should be: {error!r}") from error

    return decoded


def decode_json(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{what}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{what}: a JSON object was expected")  # noqa: TRY004 (one error for every bad node)
    return value


def int32(value: Any) -> int:
    """Return a broker id in the range of requests between brokers."""
    number = int(value)
    if not -INT32_MAX <= number <= INT32_MAX:
        raise ValueError(f"{number} is too large")
    return number


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")  # noqa: TRY004 (one error for every bad node)
    return value


def require(value: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in value:
        raise ValueError(f"{what}: {key} is missing")
    return value[key]
