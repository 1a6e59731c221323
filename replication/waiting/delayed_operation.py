"""Waits for the partitions of one request: for records to be written or committed, or deleted by followers. It completes once.

| call | when, and what it does |
|---|---|
| `wait_until_...` | a partition has not reached its offset: adds an entry to its list |
| `begin` | all waits are registered: completes when every partition has reached its offset, or at the timeout |
| `cancel` | the client has disconnected: removes the entries |

Rules: `on_outcome` is called once for every wait, unless that is cancelled: NONE when the partition has reached the offset,
an error when its leadership or its log ends, REQUEST_TIMED_OUT when the time is over first. Only then comes `on_complete`.
A wait is for an offset that is not reached: the caller checks first, so that a request without waits costs nothing.
Invariants: no wait is left behind in a partition, and no timer, once the operation is complete or cancelled.
Source: Kafka DelayedOperation, DelayedProduce, DelayedDeleteRecords.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from replication.partition import Partition
    from runtime.timer import Timer, TimerEntry

T = TypeVar("T")
TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT

# What of a partition has to reach the offset.
WRITTEN, COMMITTED, LOW_WATERMARK = range(3)


class Wait(Generic[T]):
    """The entry of an operation in a partition's list. `subject` identifies the outcome for the caller.

    The partition calls this object itself: one object a wait, and no closure.
    """

    __slots__ = ("_operation", "offset", "partition", "reaching", "subject", "ticket")

    def __init__(
        self, operation: DelayedOperation[T], partition: Partition, reaching: int, offset: int, subject: T
    ) -> None:
        self._operation = operation
        self.partition = partition
        self.reaching = reaching
        self.offset = offset
        self.subject = subject
        self.ticket = 0

    def __call__(self, error: ErrorCode) -> None:
        operation = self._operation
        waits = operation.waits
        del waits[self]
        operation.on_outcome(self, error)
        if not waits:
            operation.all_reached()

    def forget(self) -> None:
        if self.reaching == COMMITTED:
            self.partition.waiters.forget_committed(self.ticket)
        elif self.reaching == WRITTEN:
            self.partition.waiters.forget_written(self.ticket)
        else:
            self.partition.waiters.forget_deletion(self.ticket)


class DelayedOperation(Generic[T]):
    """An operation that completes when all of its waits have an outcome. Owned by its request; as a context manager it is
    cancelled at the end of the block.

    `waits` are those without an outcome, which the owner may read.
    """

    __slots__ = ("_on_complete", "_timeout", "on_outcome", "waits")

    def __init__(self, on_outcome: Callable[[Wait[T], ErrorCode], None]) -> None:
        self.on_outcome = on_outcome
        self._on_complete: Callable[[], None] | None = None
        self._timeout: TimerEntry | None = None
        self.waits: dict[Wait[T], None] = {}

    def wait_until_written(self, partition: Partition, end_offset: int, subject: T) -> None:
        wait = Wait(self, partition, WRITTEN, end_offset, subject)
        wait.ticket = partition.own_waiters().when_written(end_offset, wait)
        self.waits[wait] = None

    def wait_until_committed(self, partition: Partition, end_offset: int, subject: T) -> None:
        wait = Wait(self, partition, COMMITTED, end_offset, subject)
        wait.ticket = partition.own_waiters().when_committed(end_offset, wait)
        self.waits[wait] = None

    def wait_until_deleted(self, partition: Partition, offset: int, subject: T) -> None:
        """Wait until no live replica has records below `offset`."""
        wait = Wait(self, partition, LOW_WATERMARK, offset, subject)
        wait.ticket = partition.own_waiters().when_deleted(offset, wait)
        self.waits[wait] = None

    def begin(self, on_complete: Callable[[], None], timer: Timer | None = None, timeout_ms: int = 0) -> None:
        """Call `on_complete` once no wait is left, or with a `timer` after `timeout_ms`: 0 or less completes in this turn of
        the loop. At least one wait must be registered."""
        assert self.waits and self._on_complete is None
        self._on_complete = on_complete
        if timer is not None:
            self._timeout = timer.schedule(max(timeout_ms, 0), self._expire)

    async def completed(self, timer: Timer | None = None, timeout_ms: int = 0) -> None:
        """Await what `begin` reports; returns immediately without waits. Cancelled with the caller."""
        if not self.waits:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_complete() -> None:
            if not done.done():  # the caller may be cancelled already
                done.set_result(None)

        self.begin(on_complete, timer, timeout_ms)
        try:
            await done
        finally:
            self.cancel()

    def _expire(self) -> None:
        on_complete, self._on_complete = self._on_complete, None
        assert on_complete is not None
        for wait in self._forget_all():
            self.on_outcome(wait, TIMED_OUT)
        on_complete()

    def all_reached(self) -> None:
        """Complete, because no wait is left. A subclass may wait for more."""
        on_complete = self._on_complete
        if on_complete is None:
            return
        self._on_complete = None
        if self._timeout is not None:
            self._timeout.cancel()
        on_complete()

    def cancel(self) -> list[Wait[T]]:
        """Stop waiting, and call nothing any more. Returns the waits without an outcome."""
        self._on_complete = None
        if self._timeout is not None:
            self._timeout.cancel()
        return self._forget_all()

    def _forget_all(self) -> list[Wait[T]]:
        left = list(self.waits)
        self.waits.clear()
        for wait in left:
            wait.forget()
        return left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()
