"""Which ids were delivered lately, of all source partitions of a process together. No IO.

Rules: an id is forgotten some time after its delivery (`remembered_ms`) by the clock of the relay, or earlier when there are
more than `limit`: then those that were remembered first go first. Sixteen bytes an id, and its place in a table.
"""

from __future__ import annotations

from array import array

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
        self._table = IdTable(self._ids.__getitem__, factor)

    def advance(self, now_ms: int) -> None:
        """Say what time it is."""
        self._now_ms = now_ms

    def remember(self, salt: int, id_hash: int, delivered_ms: int) -> None:
        if not self._limit:
            return
        salted = (id_hash ^ salt) or 1
        self._now_ms = max(self._now_ms, delivered_ms)
        known = self._table.find(salted)
        if known is not None:  # as when a record is replayed twice
            self._times[known] = max(delivered_ms, self._times[known])
            return
        if self._next == len(self._ids):
            self._ids.append(salted)
            self._times.append(delivered_ms)
        else:
            self._forgotten_ms = max(self._forgotten_ms, self._times[self._next])
            self._ids[self._next] = salted
            self._times[self._next] = delivered_ms
        self._table.add((salted,), self._next)
        self._next = self._next + 1 if self._next < self._limit else 1

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
