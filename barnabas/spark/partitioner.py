"""Chooses the partition of a record as Java's clients do: the same key goes to the same partition, whoever writes it. Pure.

Rules: pure. A record without a key goes to one partition after the other, a batch each, which the caller counts.
Source: Kafka BuiltInPartitioner, Utils.murmur2.
"""

from __future__ import annotations

from functools import lru_cache

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


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


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
