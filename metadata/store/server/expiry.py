"""Which sessions of a server have been silent for longer than their timeout, by ticks. Pure.

A session is in the bucket of the tick at which it is over; a sign of life moves it to a later one. A tick looks at its own
bucket alone.

Rules: pure; `now_ms` is of the monotonic clock. A session lives at least its timeout, and at most a tick longer. If this
process itself stood still (it was paused, or its machine was busy), clients could not be heard: every session gets that time
in addition.
Source: ZooKeeper ExpiryQueue, SessionTrackerImpl. There, sessions expire after such a pause.
"""

from __future__ import annotations

from collections.abc import Iterable


class Expiry:
    """Life: `touch` for each sign of life, `due` once a tick."""

    def __init__(self, tick_ms: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self._buckets: dict[int, dict[int, None]] = {}
        self._bucket_of: dict[int, int] = {}
        self._next = now_ms // tick_ms + 1
        self._granted_ms = 0

    def __len__(self) -> int:
        return len(self._bucket_of)

    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> None:
        bucket = max((now_ms - self._granted_ms + timeout_ms) // self.tick_ms + 1, self._next)
        before = self._bucket_of.get(session_id)
        if before is not None:
            if before >= bucket:
                return
            del self._buckets[before][session_id]
        self._bucket_of[session_id] = bucket
        self._buckets.setdefault(bucket, {})[session_id] = None

    def forget(self, session_id: int) -> None:
        bucket = self._bucket_of.pop(session_id, None)
        if bucket is not None:
            self._buckets[bucket].pop(session_id, None)

    def due(self, now_ms: int) -> Iterable[int]:
        """Return the sessions that are over at this tick, and forget them."""
        tick = (now_ms - self._granted_ms) // self.tick_ms
        late = tick - self._next
        if late > 0:  # more than a whole tick was missed
            self._granted_ms += late * self.tick_ms
            tick -= late
        over: list[int] = []
        while self._next <= tick:
            over += self._buckets.pop(self._next, ())
            self._next += 1
        for session_id in over:
            del self._bucket_of[session_id]
        return over
