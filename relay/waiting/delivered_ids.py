"""Which ids were delivered within the last hour, of all source partitions of a process together. No IO.

Rules: an id is forgotten an hour after its delivery by the clock of the relay, or earlier when there are more than `limit`:
then the oldest go first.
"""

from __future__ import annotations

REMEMBERED_MS = 3_600_000
LIMIT = 1_000_000


class DeliveredIds:
    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._times: dict[int, int] = {}

    def remember(self, id_hash: int, delivered_ms: int) -> None:
        self._times.pop(id_hash, None)
        self._times[id_hash] = delivered_ms
        if len(self._times) > self._limit:
            del self._times[next(iter(self._times))]

    def delivered_ms(self, id_hash: int) -> int | None:
        return self._times.get(id_hash)

    def is_needed(self, delivered_ms: int, now_ms: int) -> bool:
        """Whether ids that were delivered then are remembered."""
        return abs(now_ms - delivered_ms) <= REMEMBERED_MS
