"""The lists of requests that wait for a partition: produces for the high watermark, fetch sessions for records. Kafka's
purgatories. Pure.

A produce waits once. A fetch session watches a partition from the moment it has read everything until there is more, over any
number of fetches; the fetch that is parked then is woken.

Rules: a waiting request costs an entry here and one in the timing wheel: no task, no timer of its own. Wake-ups are
exact: nothing polls. A session is touched immediately, a parked fetch is woken at the end of the loop turn.
Invariants: a produce completes once, in the order they came for the same offset. A watcher leaves the list when it is touched:
an abandoned session costs one call and then nothing.
Source: Kafka DelayedProduce, DelayedFetch, DelayedOperationPurgatory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from protocol.errors import ErrorCode

# Where reading ends: for followers, for consumers, for consumers with read_committed.
LOG_END, COMMITTED_END, STABLE_END = range(3)


class CommitWaiters:
    """The appends of one partition that wait until the high watermark reaches their end.

    `on_result(error)` is called exactly once, unless cancelled: NONE when committed, an error when leadership ends.
    """

    __slots__ = ("_cancelled", "_sequence", "heap")

    def __init__(self) -> None:
        # Owned by this class; appends check whether it is empty.
        self.heap: list[tuple[int, int, Callable[[ErrorCode], None]]] = []
        # None while no waiter was cancelled.
        self._cancelled: set[int] | None = None
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.heap) - len(self._cancelled or ())

    def park(self, required_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Wait until the high watermark is at least `required_offset`. Returns a ticket for `cancel`."""
        self._sequence += 1
        heapq.heappush(self.heap, (required_offset, self._sequence, on_result))
        return self._sequence

    def cancel(self, ticket: int) -> None:
        """Cancel a waiter that is still parked (its request timed out or its client disconnected)."""
        cancelled = self._cancelled = self._cancelled or set()
        cancelled.add(ticket)
        if len(cancelled) * 2 > len(self.heap):
            self.heap = [entry for entry in self.heap if entry[1] not in cancelled]
            heapq.heapify(self.heap)
            self._cancelled = None

    def release(self, high_watermark: int) -> None:
        heap = self.heap
        while heap and heap[0][0] <= high_watermark:
            self._complete(heapq.heappop(heap), ErrorCode.NONE)
            heap = self.heap  # a callback may have cancelled others, which rebuilds the heap

    def fail_all(self, error: ErrorCode) -> None:
        while self.heap:
            self._complete(heapq.heappop(self.heap), error)

    def _complete(self, entry: tuple[int, int, Callable[[ErrorCode], None]], error: ErrorCode) -> None:
        _, ticket, on_result = entry
        if self._cancelled and ticket in self._cancelled:
            self._cancelled.discard(ticket)
        else:
            on_result(error)


class FetchWaiter(Protocol):
    """A fetch that waits for records. It decides itself whether its wait is over."""

    def on_progress(self) -> None:
        """Called when partitions that it reads have changed. It may be complete already."""


class Watcher(Protocol):
    """One partition of a fetch session. It is in at most one of the partition's lists."""

    @property
    def is_parked(self) -> bool:
        """Whether a fetch of the session is waiting."""

    def touch(self) -> FetchWaiter | None:
        """Mark the partition as changed for the session; returns the fetch that waits for it, if one does."""


class FetchWatchers:
    """The fetch sessions that have read everything of one partition, by the end that they wait for: `leo` (LOG_END), `hw`
    (COMMITTED_END), `lso` (STABLE_END). A list stays None until it is needed: most partitions are read by few."""

    __slots__ = ("hw", "leo", "lso")

    def __init__(self) -> None:
        self.leo: dict[Watcher, None] | None = None
        self.hw: dict[Watcher, None] | None = None
        self.lso: dict[Watcher, None] | None = None

    def of(self, interest: int) -> dict[Watcher, None]:
        """Return the list of those that wait for that end to move; they leave it when it does."""
        if interest == COMMITTED_END:
            if self.hw is None:
                self.hw = {}
            return self.hw
        if interest == LOG_END:
            if self.leo is None:
                self.leo = {}
            return self.leo
        if self.lso is None:
            self.lso = {}
        return self.lso

    def lists(self) -> list[dict[Watcher, None]]:
        """Return the lists that are not empty."""
        return [watchers for watchers in (self.hw, self.lso, self.leo) if watchers]


def mark(watchers: dict[Watcher, None]) -> None:
    """Touch the watchers of a partition without waking fetches: the next response of each session includes the change."""
    for watcher in watchers:
        watcher.touch()


class WakeUps:
    """Collects the fetches whose partitions changed in a loop turn, and wakes each of them once at the end of the turn."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._fetches: dict[FetchWaiter, None] = {}

    def touch(self, watchers: dict[Watcher, None]) -> None:
        """Touch all watchers of a partition, which leave the list."""
        for watcher in watchers:
            fetch = watcher.touch()
            if fetch is not None:
                if not self._fetches:
                    self._call_soon(self._wake)
                self._fetches[fetch] = None
        watchers.clear()

    def _wake(self) -> None:
        fetches, self._fetches = self._fetches, {}
        waking = iter(fetches)
        try:
            for fetch in waking:
                fetch.on_progress()
        except BaseException:  # the others are woken a turn of the loop later
            left = dict.fromkeys(waking)
            if left and not self._fetches:
                self._call_soon(self._wake)
            self._fetches = left | self._fetches
            raise
