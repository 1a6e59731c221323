"""One budget of bytes that many connections share: requests that are being read or handled, responses that wait.

Rules: no IO. Who is refused waits in one line, and nobody overtakes it. A reservation larger than the whole budget is
granted when nothing else is reserved, so that it is served alone instead of never. Requests without records that wait are
parked: for as long as consumers and members of groups wait, which is always, they keep no producer out.
Invariants: `used_bytes` is the sum of what was reserved and not yet released, `parked_bytes` of what was parked. Reserved is
at most the limit, or one larger reservation; on top come the bytes that were there already. Parked is at most the limit of
requests larger than `SMALL_REQUEST_BYTES`; of small ones a connection parks one, and more while there is parking room.
Source: Kafka queued.max.request.bytes, SimpleMemoryPool, RequestChannel.Request.releaseBuffer (what waits in a purgatory
holds nothing of the pool).
"""

from __future__ import annotations

from collections.abc import Callable

# What a request that waits costs at least: its decoded message, its answer, its places in waiting lists.
LEAST_WAITING_BYTES = 4 * 1024
# A request up to this size costs no more than the rest of its connection: its receive and send buffers in the kernel.
SMALL_REQUEST_BYTES = 64 * 1024


class BudgetTicket:
    """A place in the line."""

    __slots__ = ("granted", "size_bytes")

    def __init__(self, size_bytes: int, granted: Callable[[], None]) -> None:
        self.size_bytes = size_bytes
        self.granted = granted


class MemoryBudget:
    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.parked_bytes = 0
        self._line: dict[BudgetTicket, None] = {}

    @property
    def available_bytes(self) -> int:
        """What can be reserved now without waiting; 0 while anybody waits."""
        return 0 if self._line else max(self.limit_bytes - self.used_bytes, 0)

    @property
    def has_parking_room(self) -> bool:
        return self.parked_bytes < self.limit_bytes

    @property
    def waiting_count(self) -> int:
        return len(self._line)

    def has_room(self, size_bytes: int) -> bool:
        return not self._line and self._fits(size_bytes)

    def reserve(self, size_bytes: int) -> bool:
        if self._line or not self._fits(size_bytes):
            return False
        self.used_bytes += size_bytes
        return True

    def reserve_anyway(self, size_bytes: int) -> None:
        """For bytes that are there already: others wait the longer for it."""
        self.used_bytes += size_bytes

    def reserve_later(self, size_bytes: int, granted: Callable[[], None]) -> BudgetTicket:
        """Join the line; `granted` is called from a `release`, with the bytes reserved. It must not reserve at once."""
        ticket = BudgetTicket(size_bytes, granted)
        self._line[ticket] = None
        return ticket

    def leave_line(self, ticket: BudgetTicket) -> None:
        """No effect when it was granted. Others behind it may be granted now."""
        self._line.pop(ticket, None)
        self._grant()

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0, "more bytes released than reserved"
        if self._line:
            self._grant()

    def park(self, size_bytes: int, *, is_reserved: bool) -> bool:
        """A request without records waits. False when it is large and there is no parking room: what it has reserved stays
        reserved. One that is not reserved is small."""
        if is_reserved:
            if size_bytes > SMALL_REQUEST_BYTES and self.parked_bytes + size_bytes > self.limit_bytes:
                return False
            self.release(size_bytes)
        self.parked_bytes += size_bytes
        return True

    def release_parked(self, size_bytes: int) -> None:
        self.parked_bytes -= size_bytes
        assert self.parked_bytes >= 0, "more bytes released than parked"

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self.limit_bytes or self.used_bytes == 0

    def _grant(self) -> None:
        while self._line:
            ticket = next(iter(self._line))
            if not self._fits(ticket.size_bytes):
                return
            del self._line[ticket]
            self.used_bytes += ticket.size_bytes
            ticket.granted()
