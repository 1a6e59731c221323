"""Requests that wait for a partition: produces for the high watermark, fetches for records. Kafka's purgatories.

Rules: a waiting request costs an entry here and one in the timing wheel: no task, no timer of its own. Wake-ups are
exact: nothing polls. A waiter leaves every list it stands in the moment it completes.
Invariants: a waiter completes once; waiters complete in the order they came for the same offset.
Source: Kafka DelayedProduce, DelayedFetch, DelayedOperationPurgatory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from protocol.errors import ErrorCode


class CommitWaiters:
    """Appends of one partition that wait until the high watermark reaches their end.

    `on_result(error)` is called exactly once, unless cancelled: NONE when committed, an error when leadership ends.
    """

    __slots__ = ("_cancelled", "_sequence", "heap")

    def __init__(self) -> None:
        # Owned by this class; whoever appends looks at it to see that nobody waits.
        self.heap: list[tuple[int, int, Callable[[ErrorCode], None]]] = []
        self._cancelled: set[int] = set()
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.heap) - len(self._cancelled)

    def park(self, required_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Wait until the high watermark is at least `required_offset`. Returns a ticket for `cancel`."""
        self._sequence += 1
        heapq.heappush(self.heap, (required_offset, self._sequence, on_result))
        return self._sequence

    def cancel(self, ticket: int) -> None:
        """Forget a waiter that is still parked (its request timed out or its client left)."""
        self._cancelled.add(ticket)
        if len(self._cancelled) * 2 > len(self.heap):
            self.heap = [entry for entry in self.heap if entry[1] not in self._cancelled]
            heapq.heapify(self.heap)
            self._cancelled.clear()

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
        if ticket in self._cancelled:
            self._cancelled.discard(ticket)
        else:
            on_result(error)


class FetchWaiter(Protocol):
    """A parked fetch. It decides itself whether what it waits for is there."""

    def on_progress(self) -> None:
        """Something of a partition that it waits in has changed: more committed records, or a reason to answer."""


class FetchWaiters:
    """The fetches parked on one partition, in order of arrival."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[FetchWaiter, None] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def park(self, waiter: FetchWaiter) -> None:
        self.waiting[waiter] = None

    def leave(self, waiter: FetchWaiter) -> None:
        self.waiting.pop(waiter, None)

    def wake(self) -> None:
        if self.waiting:
            for waiter in list(self.waiting):
                waiter.on_progress()
