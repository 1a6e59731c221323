"""From where on each bucket is needed by a source partition, as text beside its committed offset. Pure.

    of=16 hour=1200 day=17

`of` is the number of partitions that the relay's log had when records of the source began to wait: it says in which
partition they are, also when there are more partitions now. A bucket that is not named is not needed. Whoever deletes old
records of a bucket reads the texts of all source partitions whose copies are in the same partition of it.

Rules: a record of a bucket that is copied later than the end was looked up, before the offsets were read, is never deleted by
what these say: offsets are stable when they are read, and the end is that of committed transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from relay.names import BUCKET_TIERS


class BucketNeeds(NamedTuple):
    """What one source partition needs. `log_partitions` is None for a source that nothing is known of; `lowest` has the lowest
    offset that is needed in each tier."""

    log_partitions: int | None
    lowest: Mapping[int, int]


def needs_text(needs: BucketNeeds) -> str:
    """Return the text of what is needed."""
    lowest = [f"{BUCKET_TIERS[tier - 1]}={offset}" for tier, offset in sorted(needs.lowest.items())]
    return " ".join([f"of={needs.log_partitions}", *lowest])


def needs_of(text: str | None) -> BucketNeeds:
    """Return what a text says. Raises ValueError for another text."""
    lowest, log_partitions = {}, None
    for each in (text or "").split():
        name, _, offset = each.partition("=")
        if name == "of":
            log_partitions = int(offset)
        else:
            lowest[BUCKET_TIERS.index(name) + 1] = int(offset)
    return BucketNeeds(log_partitions, lowest)


def deletable(end: int, needs: Iterable[BucketNeeds], tier: int) -> int:
    """Return the offset before which nothing of a bucket is needed. `end` is its end before the offsets were read."""
    return min([end, *(each.lowest[tier] for each in needs if tier in each.lowest)])
