"""From where on each bucket is needed by a source partition, as text beside its committed offset. Pure.

    hour=1200 day=17

A bucket that is not named is not needed. Whoever deletes old records of a bucket reads the texts of all source partitions whose
copies are in the same partition of it.

Rules: a record of a bucket that is copied later than the end was looked up, before the offsets were read, is never deleted by
what these say: offsets are stable when they are read, and the end is that of committed transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from relay.names import BUCKET_TIERS


def needs_text(lowest: Mapping[int, int]) -> str:
    """Return the text of the lowest offset that is needed in each tier."""
    return " ".join(f"{BUCKET_TIERS[tier - 1]}={offset}" for tier, offset in sorted(lowest.items()))


def needs_of(text: str | None) -> dict[int, int]:
    """Return the lowest offset that is needed in each tier. Raises ValueError for another text."""
    found = {}
    for each in (text or "").split():
        name, _, offset = each.partition("=")
        found[BUCKET_TIERS.index(name) + 1] = int(offset)
    return found


def deletable(end: int, needs: Iterable[Mapping[int, int]], tier: int) -> int:
    """Return the offset before which nothing of a bucket is needed. `end` is its end before the offsets were read."""
    return min([end, *(each[tier] for each in needs if tier in each)])
