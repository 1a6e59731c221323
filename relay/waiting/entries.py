"""One record that waits, in three numbers. No IO.

Invariants: a place names one record of a relay for ever: the tier says in which partition it is, the offset where in it. Places
of one tier have the order of their offsets. The hash of an id is the same in every process and on every machine.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

# The source partition itself; the others are the bucket topics, by how far away the due time was when a record was copied.
SOURCE, HOUR, DAY, MONTH, YEAR = TIERS = range(5)
NO_ID = 0
_OFFSET_BITS = 56
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_HASH_BYTES = 8


class WaitingEntry(NamedTuple):
    """A record that waits until `due_ms`, milliseconds since the epoch. `id_hash` is NO_ID when the record has no id."""

    due_ms: int
    place: int
    id_hash: int


def place_of(tier: int, offset: int) -> int:
    assert tier in TIERS and 0 <= offset <= _OFFSET_MASK
    return tier << _OFFSET_BITS | offset


def tier_of(place: int) -> int:
    return place >> _OFFSET_BITS


def offset_of(place: int) -> int:
    return place & _OFFSET_MASK


def id_hash(message_id: bytes) -> int:
    """Return 64 bits of a message's id, never NO_ID."""
    return int.from_bytes(blake2b(message_id, digest_size=_HASH_BYTES).digest(), "little") or 1
