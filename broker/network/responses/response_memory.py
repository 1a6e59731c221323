"""Responses that clients have not taken yet, counted over all connections: slow readers do not fill the memory.

Every response that is not small is counted from its encoding until the transport has sent all of it. A fetch reads no more
than half of what is left, so that many at the same time get small responses instead of much memory. When nothing is left it
waits in a queue for a moment, mostly for responses that are just being sent; then it gets one batch all the same, since a
consumer must make progress. That may exceed the limit: past `OVERRUN_FACTOR` times the limit, the connection that took nothing
for the longest time is closed. So the bound holds whatever clients do.

Rules: no IO. The transport does not report what it has sent, so the counts are corrected when memory is short, and when a
connection writes anyway.
Invariants: the budget's used bytes are what all connections buffer and what cold reads have reserved; connections stand in
the order of their last progress; while a fetch waits in the queue a timer runs.
Source: no Kafka class; Apache Kafka sends records from the page cache and keeps none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.network.memory_budget import MemoryBudget
    from runtime.timer import Timer

# Responses up to this size are not counted: a connection has few of them before its peer counts as slow.
SMALL_RESPONSE_BYTES = 4 * 1024
OVERRUN_FACTOR = 2
# How often the queue is checked, and after how many such checks a fetch in it does without memory.
QUEUE_PERIOD_MS = 5
QUEUE_PERIODS = 20


class ResponseSink(Protocol):
    """The connection that responses go to."""

    @property
    def unsent_bytes(self) -> int: ...

    def disconnect(self, reason: str) -> None: ...


class QueueTicket:
    """A fetch that waits for memory."""

    __slots__ = ("granted", "last_period")

    def __init__(self, granted: Callable[[], None], last_period: int) -> None:
        self.granted = granted
        self.last_period = last_period


class ResponseMemory:
    """One for all connections of a broker. `closing_bytes` are of connections that are being closed for being too slow."""

    __slots__ = ("_buffering", "_periods", "_queue", "_timer", "budget", "closing_bytes")

    def __init__(self, budget: MemoryBudget, timer: Timer) -> None:
        self.budget = budget
        self.closing_bytes = 0
        self._timer = timer
        self._buffering: dict[BufferedResponses, None] = {}
        self._queue: dict[QueueTicket, None] = {}
        self._periods = 0

    # --- fetches ---

    def room(self) -> int:
        """Bytes that a fetch may read now; 0: it should wait in the queue."""
        budget = self.budget
        if budget.used_bytes * 2 > budget.limit_bytes:
            self._trim()
        return budget.available_bytes // 2

    def wait(self, granted: Callable[[], None]) -> QueueTicket:
        """Call `granted` when there is room, or when there was none for so long that a fetch must do without."""
        ticket = QueueTicket(granted, self._periods + QUEUE_PERIODS)
        if not self._queue:
            self._timer.schedule(QUEUE_PERIOD_MS, self._serve_queue)
        self._queue[ticket] = None
        return ticket

    def leave_queue(self, ticket: QueueTicket) -> None:
        """No effect when its `granted` was called."""
        self._queue.pop(ticket, None)

    def _serve_queue(self) -> None:
        self._trim()
        self._periods += 1
        queue = self._queue
        while queue:
            ticket = next(iter(queue))
            if self.budget.available_bytes < SMALL_RESPONSE_BYTES and (
                ticket.last_period > self._periods or self.closing_bytes
            ):
                break
            del queue[ticket]
            ticket.granted()
        if queue:
            self._timer.schedule(QUEUE_PERIOD_MS, self._serve_queue)

    # --- connections ---

    def _trim(self) -> None:
        for one in list(self._buffering):
            one.trim()

    def _added(self, one: BufferedResponses, size_bytes: int) -> None:
        budget = self.budget
        budget.reserve_anyway(size_bytes)
        self._buffering[one] = None
        if budget.used_bytes - self.closing_bytes > budget.limit_bytes * OVERRUN_FACTOR:
            self._disconnect_slowest(one, size_bytes)

    def _disconnect_slowest(self, newest: BufferedResponses, size_bytes: int) -> None:
        """A single response may be as large as it is; anything else has to fit."""
        budget = self.budget
        self._trim()
        for one in list(self._buffering):
            if budget.used_bytes - self.closing_bytes <= budget.limit_bytes * OVERRUN_FACTOR:
                return
            if one.is_disconnected or (one is newest and one.size_bytes <= size_bytes):
                continue
            one.is_disconnected = True
            self.closing_bytes += one.size_bytes
            one.sink.disconnect("its responses, which it does not read, fill the memory")

    def _released(self, one: BufferedResponses, size_bytes: int) -> None:
        if one.is_disconnected:
            self.closing_bytes -= size_bytes
        del self._buffering[one]
        if one.size_bytes:
            self._buffering[one] = None  # it took something: now it is the last to be closed
        self.budget.release(size_bytes)


class BufferedResponses:
    """What one connection buffers: responses that were encoded and not yet written, and writes that were not yet sent."""

    __slots__ = ("_memory", "_writes", "_written_bytes", "is_disconnected", "sink", "size_bytes")

    def __init__(self, memory: ResponseMemory, sink: ResponseSink) -> None:
        self._memory = memory
        self.sink = sink
        self.size_bytes = 0
        self.is_disconnected = False
        self._written_bytes = 0
        self._writes: deque[tuple[int, int]] = (
            deque()
        )  # (where the write ends in all bytes written, counted bytes in it)

    def add(self, size_bytes: int) -> None:
        """Count a response that was encoded."""
        assert not self.is_disconnected
        self.size_bytes += size_bytes
        self._memory._added(self, size_bytes)  # noqa: SLF001  two halves of one thing

    def wrote(self, write_bytes: int, counted_bytes: int) -> None:
        """`write_bytes` went to the transport, of which `counted_bytes` were counted by `add`."""
        self._written_bytes += write_bytes
        if counted_bytes and self.size_bytes:
            self._writes.append((self._written_bytes, counted_bytes))

    def trim(self) -> None:
        """Release what was sent. A write counts as a whole: the transport keeps all of its buffers until its end."""
        if not self._writes or self.is_disconnected:
            return
        sent_bytes = self._written_bytes - self.sink.unsent_bytes
        released = 0
        while self._writes and self._writes[0][0] <= sent_bytes:
            released += self._writes.popleft()[1]
        self._release(released)

    def drop(self) -> None:
        """Release everything: the connection is closed."""
        self._writes.clear()
        self._release(self.size_bytes)

    def _release(self, size_bytes: int) -> None:
        if size_bytes:
            self.size_bytes -= size_bytes
            self._memory._released(self, size_bytes)  # noqa: SLF001  see `add`
