"""The partition of an internal topic that a group or transactional id belongs to. Pure.

Every broker and many tools compute it: the result must equal that of Java's arithmetic.
Source: Kafka Utils.abs(String.hashCode()) % partitions.
"""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(1 << 31)
# Every request of a coordinator asks for the hash of its key, and Java's arithmetic costs some microseconds here. Longer keys,
# which clients choose, are not kept: the cache has at most a megabyte.
CACHED_KEYS = 4_096
CACHED_KEY_LENGTH_MAX = 64


def java_string_hash(text: str) -> int:
    """String.hashCode: a signed 32-bit hash over UTF-16 code units.

    >>> java_string_hash("my-group"), java_string_hash("")
    (-1906497762, 0)
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(coordinator_key: str, partitions_count: int) -> int:
    """The partition of `coordinator_key`. The smallest int has no positive twin: Kafka counts it as 0."""
    is_kept = len(coordinator_key) <= CACHED_KEY_LENGTH_MAX
    value = _cached_hash(coordinator_key) if is_kept else java_string_hash(coordinator_key)
    return 0 if value == _INT_MIN else abs(value) % partitions_count


@lru_cache(maxsize=CACHED_KEYS)
def _cached_hash(key: str) -> int:
    return java_string_hash(key)
