"""The order in which Java's key manager tries the keys of a store: that of a HashMap of their aliases.

Where several keys fit a client, the first one in this order is shown, whatever the order of the file is. It depends on the hash
codes of the aliases; where those meet in one bucket, it depends on the order in which the store itself enumerates its aliases.

Pure. Source: OpenJDK java.util.HashMap, Hashtable, HashSet; sun.security.ssl.SunX509KeyManagerImpl,
sun.security.provider.JavaKeyStore, sun.security.pkcs12.PKCS12KeyStore.
"""

from __future__ import annotations

from collections.abc import Sequence

_MAP_BUCKETS = 16
_TABLE_BUCKETS = 11
_POSITIVE = 0x7FFFFFFF


def order_of_jks(aliases: Sequence[str]) -> list[str]:
    """Return the aliases of a JKS store in the order of the key manager. `aliases` are in the order of the file."""
    return _hash_map_order(_hashtable_order(aliases), _MAP_BUCKETS)


def order_of_pkcs12(aliases: Sequence[str]) -> list[str]:
    """Return the aliases of a PKCS12 store in the order of the key manager. `aliases` are in the order of the file."""
    first = max(_MAP_BUCKETS, int(len(aliases) / 0.75) + 1)
    return _hash_map_order(_hash_map_order(aliases, first), _MAP_BUCKETS)


def hash_code(text: str) -> int:
    """Return String.hashCode, as an unsigned number of 32 bits."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[position : position + 2])) & 0xFFFFFFFF
    return code


def _hash_map_order(texts: Sequence[str], buckets: int) -> list[str]:
    """The order of a HashMap: of its buckets, within one in the order of insertion, which its growth keeps."""
    size = 1
    while size < buckets:
        size *= 2
    while len(texts) > size * 3 // 4:
        size *= 2

    def bucket(text: str) -> int:
        code = hash_code(text)
        return (code ^ code >> 16) & (size - 1)

    return sorted(texts, key=bucket)


def _hashtable_order(texts: Sequence[str]) -> list[str]:
    """The order of a Hashtable: its buckets from the last to the first, within one the newest entry first."""
    table: list[list[str]] = [[] for _ in range(_TABLE_BUCKETS)]
    for count, text in enumerate(texts):
        if count >= len(table) * 3 // 4:
            table = _grown(table)
        table[(hash_code(text) & _POSITIVE) % len(table)].insert(0, text)
    return [text for bucket in reversed(table) for text in bucket]


def _grown(table: list[list[str]]) -> list[list[str]]:
    grown: list[list[str]] = [[] for _ in range(2 * len(table) + 1)]
    for bucket in reversed(table):
        for text in bucket:
            grown[(hash_code(text) & _POSITIVE) % len(grown)].insert(0, text)
    return grown
