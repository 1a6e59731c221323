"""The partition of a key, as the partitioners of clients choose it, by their names. Pure.

    murmur2    Java's clients, and those that follow them      crc32     librdkafka's default
    fnv1a      Sarama (Go)

Invariant: the same key goes to the same partition as with these clients, while the number of partitions stays.
Source: Kafka BuiltInPartitioner, Utils.murmur2; librdkafka rd_kafka_msg_partitioner_consistent, _fnv1a; Sarama hashPartitioner.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_FNV_START = 2166136261
_FNV_PRIME = 16777619


@lru_cache(maxsize=65536)
def murmur2(data: bytes) -> int:
    """The hash of Java's clients, as an unsigned number of 32 bits."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    if length & 3:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def by_murmur2(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def by_crc32(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions


def by_fnv1a(key: bytes, partitions: int) -> int:
    value = _FNV_START
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    signed = value - (1 << 32) if value >> 31 else value
    # Of Go and C, whose remainder has the sign of the dividend.
    return abs(signed) % partitions


PARTITIONERS: Mapping[str, Callable[[bytes, int], int]] = MappingProxyType(
    {"murmur2": by_murmur2, "crc32": by_crc32, "fnv1a": by_fnv1a}
)
"""By the names of librdkafka's setting `partitioner`."""
