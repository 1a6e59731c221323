"""Answers that clients have not taken yet, counted over all connections: what keeps slow readers from filling the memory.

Every answer that is not small is held from its encoding until the transport has sent all of it. A fetch reads no more
than half of what is left, so that many at once get small answers instead of much memory. When nothing is left it waits
in line a moment, mostly for answers that are being sent just now; then it is answered one batch all the same, since a
consumer must get on. That may exceed the limit: past `OVERRUN_FACTOR` times the limit, whoever took nothing for the
longest time is cut off. So the bound holds whatever clients do.

Rules: no IO. Nobody tells when bytes leave, so holders are looked at when memory is short, and when they go on anyway.
Invariants: the budget's used bytes are what all connections hold and what cold reads have reserved; holders stand in
the order of their last progress; while anybody waits in line a timer runs.
Source: no Kafka class; Apache Kafka sends records from the page cache and keeps none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.network.memory_budget import MemoryBudget
    from runtime.timer import Timer

# Answers up to this size are not counted: a connection has few of them before its peer counts as slow.
SMALL_ANSWER_BYTES = 4 * 1024
OVERRUN_FACTOR = 2
# How often those in line are looked at, and after how many such looks they do without.
LINE_PERIOD_MS = 5
LINE_PERIODS = 20


class ResponseSink(Protocol):
    """The connection that answers go to."""

    @property
    def unsent_bytes(self) -> int: ...

    def cut_off(self, reason: str) -> None: ...


class QueueTicket:
    """A fetch that waits for memory."""

    __slots__ = ("go_on", "last_period")

    def __init__(self, go_on: Callable[[], None], last_period: int) -> None:
        self.go_on = go_on
        self.last_period = last_period


class ResponseMemory:
    """One for all connections of a broker. `leaving_bytes` are of connections that were cut off and are not gone yet."""

    __slots__ = ("_holders", "_line", "_periods", "_timer", "budget", "leaving_bytes")

    def __init__(self, budget: MemoryBudget, timer: Timer) -> None:
        self.budget = budget
        self.leaving_bytes = 0
        self._timer = timer
        self._holders: dict[BufferedResponses, None] = {}
        self._line: dict[QueueTicket, None] = {}
        self._periods = 0

    # --- fetches ---

    def room(self) -> int:
        """Bytes that a fetch may read now; 0: it should wait in line."""
        budget = self.budget
        if budget.used_bytes * 2 > budget.limit_bytes:
            self._trim()
        return budget.available_bytes // 2

    def wait(self, go_on: Callable[[], None]) -> QueueTicket:
        """Call `go_on` when there is room, or when there was none for so long that a fetch must do without."""
        ticket = QueueTicket(go_on, self._periods + LINE_PERIODS)
        if not self._line:
            self._timer.schedule(LINE_PERIOD_MS, self._serve_line)
        self._line[ticket] = None
        return ticket

    def leave_line(self, ticket: QueueTicket) -> None:
        """No effect when it was called."""
        self._line.pop(ticket, None)

    def _serve_line(self) -> None:
        self._trim()
        self._periods += 1
        line = self._line
        while line:
            ticket = next(iter(line))
            if self.budget.available_bytes < SMALL_ANSWER_BYTES and (
                ticket.last_period > self._periods or self.leaving_bytes
            ):
                break
            del line[ticket]
            ticket.go_on()
        if line:
            self._timer.schedule(LINE_PERIOD_MS, self._serve_line)

    # --- holders ---

    def _trim(self) -> None:
        for held in list(self._holders):
            held.trim()

    def _held(self, held: BufferedResponses, size_bytes: int) -> None:
        budget = self.budget
        budget.reserve_anyway(size_bytes)
        self._holders[held] = None
        if budget.used_bytes - self.leaving_bytes > budget.limit_bytes * OVERRUN_FACTOR:
            self._cut_off_slowest(held, size_bytes)

    def _cut_off_slowest(self, newest: BufferedResponses, size_bytes: int) -> None:
        """One answer alone may be as large as it is; anything else has to fit."""
        budget = self.budget
        self._trim()
        for held in list(self._holders):
            if budget.used_bytes - self.leaving_bytes <= budget.limit_bytes * OVERRUN_FACTOR:
                return
            if held.is_cut_off or (held is newest and held.size_bytes <= size_bytes):
                continue
            held.is_cut_off = True
            self.leaving_bytes += held.size_bytes
            held.taker.cut_off("answers that nobody takes fill the memory")

    def _released(self, held: BufferedResponses, size_bytes: int) -> None:
        if held.is_cut_off:
            self.leaving_bytes -= size_bytes
        del self._holders[held]
        if held.size_bytes:
            self._holders[held] = None  # it took something: now it is the last to be cut off
        self.budget.release(size_bytes)


class BufferedResponses:
    """What one connection holds: answers that were encoded and not yet written, and writes that were not yet sent."""

    __slots__ = ("_memory", "_writes", "_written_bytes", "is_cut_off", "size_bytes", "taker")

    def __init__(self, memory: ResponseMemory, taker: ResponseSink) -> None:
        self._memory = memory
        self.taker = taker
        self.size_bytes = 0
        self.is_cut_off = False
        self._written_bytes = 0
        self._writes: deque[tuple[int, int]] = deque()  # (where the write ends in all bytes written, what it holds)

    def add(self, size_bytes: int) -> None:
        """An answer was encoded."""
        assert not self.is_cut_off
        self.size_bytes += size_bytes
        self._memory._held(self, size_bytes)  # noqa: SLF001  two halves of one thing

    def wrote(self, write_bytes: int, held_bytes: int) -> None:
        """So many bytes went to the transport, answers with `held_bytes` among them."""
        self._written_bytes += write_bytes
        if held_bytes and self.size_bytes:
            self._writes.append((self._written_bytes, held_bytes))

    def trim(self) -> None:
        """Release what was sent. A write counts as a whole: the transport keeps all of its buffers until its end."""
        if not self._writes or self.is_cut_off:
            return
        sent_bytes = self._written_bytes - self.taker.unsent_bytes
        released = 0
        while self._writes and self._writes[0][0] <= sent_bytes:
            released += self._writes.popleft()[1]
        self._release(released)

    def drop(self) -> None:
        """Release everything: the connection is gone."""
        self._writes.clear()
        self._release(self.size_bytes)

    def _release(self, size_bytes: int) -> None:
        if size_bytes:
            self.size_bytes -= size_bytes
            self._memory._released(self, size_bytes)  # noqa: SLF001  see `add`
