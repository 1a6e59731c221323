"""Which ids were delivered lately, of all source partitions of a process together. No IO.

Rules: an id is forgotten some time after its delivery (`remembered_ms`) by the clock of the relay, or earlier when there are
more than `limit`: then those that were remembered first go first. Sixteen bytes an id, and its place in a table.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from relay.waiting.entries import NO_ID
from relay.waiting.id_table import IdTable

REMEMBERED_MS = 3_600_000
LIMIT = 1_000_000
_NEVER_MS = -(1 << 63)


class DeliveredIds:
    """Ids with the times of their deliveries, in milliseconds since the epoch.

    An id is known together with the salt of its source partition: the same id of two source partitions is two ids.
    """

    def __init__(self, limit: int = LIMIT, remembered_ms: int = REMEMBERED_MS, factor: int = 1) -> None:
        """`factor`: a random odd number of 64 bits, by which the indexes of the process look for ids, too."""
        self._limit = limit
        self._remembered_ms = remembered_ms
        self.factor = factor
        self._ids = array("Q", [NO_ID])
        self._times = array("q", [_NEVER_MS])
        self._next = 1
        self._now_ms = _NEVER_MS
        self._forgotten_ms = _NEVER_MS
        self._table = IdTable(self._ids_of, factor)

    def advance(self, now_ms: int) -> None:
        """Say what time it is."""
        self._now_ms = now_ms

    def remember(self, salt: int, id_hashes: Iterable[int], delivered_ms: int) -> None:
        self._now_ms = max(self._now_ms, delivered_ms)
        find, times = self._table.find, self._times
        new: dict[int, None] = {}
        for id_hash in id_hashes if self._limit else ():
            salted = (id_hash ^ salt) or 1
            known = find(salted)
            if known is None:
                new[salted] = None
            else:  # as when a record is replayed twice
                times[known] = max(delivered_ms, times[known])
        added = list(new)
        while added:
            count = self._write(added, delivered_ms)
            del added[:count]

    def _write(self, added: list[int], delivered_ms: int) -> int:
        """Put the first of these ids where the next are due, up to the end of the columns. Returns how many."""
        start = self._next
        end = min(start + len(added), self._limit + 1)
        part = array("Q", added[: end - start])
        self._forgotten_ms = max((self._forgotten_ms, *self._times[start:end]))
        self._ids[start:end] = part
        self._times[start:end] = array("q", [delivered_ms]) * len(part)
        self._table.add(part, start)
        self._next = end if end <= self._limit else 1
        return len(part)

    def delivered_ms(self, salt: int, id_hash: int) -> int | None:
        reference = self._table.find((id_hash ^ salt) or 1)
        if reference is None:
            return None
        delivered_ms = self._times[reference]
        return delivered_ms if self._is_recent(delivered_ms) else None

    def has_ids_of(self, delivered_ms: int) -> bool:
        """Whether ids that were delivered then are remembered."""
        return delivered_ms > self._forgotten_ms and self._is_recent(delivered_ms)

    def _is_recent(self, delivered_ms: int) -> bool:
        # A delivery far in the future was before the clock was set back.
        return abs(self._now_ms - delivered_ms) <= self._remembered_ms

    def _ids_of(self, references: Iterable[int]) -> list[int]:
        return list(map(self._ids.__getitem__, references))
