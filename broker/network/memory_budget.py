"""One budget of bytes that many connections share: requests that are being read or handled, responses that wait.

Rules: no IO. A refused reservation waits in one queue, in order. A reservation larger than the whole budget is granted
when nothing else is reserved, so that it is served alone instead of never.

Large frames are reserved while they are received, at their senders' pace, and have a queue of their own, in which those of
which a part is there come first. Frames that are incomplete fill at most `LARGEST_SHARE` of the limit, so that complete ones
proceed however slow all senders of frames are; while frames wait, requests leave them the same share. A frame is reserved whole
at its length prefix only while all that is promised so is at most `AHEAD_SHARE` of the limit; else in steps, each as large as
what has come already: length prefixes alone fill no memory. When frames have used up their share, one of them proceeds
outside the limit, one at a time: the first that needs more, or the one that has most. So frames do not wait for each
other, and a single one, however large and slow, delays no other request.

Requests that wait keep no producer out, for consumers and members of groups always wait. Large ones without records have a
budget of their own, from their first byte to their response (`ConnectionShared.plain_budget`); those that others wait for
(`broker.network.dispatch.REBALANCE_KEYS`), and those with records, release their bytes once nothing needs the frame. What
remains of a request then, or of one that was received in place, is parked, in the budget of its kind.

Invariants: `used_bytes` is the sum of what was reserved and not yet released, `receiving_bytes` the part of it that belongs to
frames which are incomplete, `ahead_bytes` the part of that which was promised; `parked_bytes` is what was parked, and
`outside_bytes` the size of the frame outside the limit. Used and outside together are at most the limit and one frame; on top
come bytes that were there already. A parked request has at most `SMALL_REQUEST_BYTES`; a connection parks one, and more
while there is parking room.
Source: Kafka queued.max.request.bytes, SimpleMemoryPool (its bound is the limit and one request as well), NetworkReceive,
RequestChannel.Request.releaseBuffer (what waits in a purgatory holds nothing of the pool).
"""

from __future__ import annotations

from collections.abc import Callable

# What a request that waits costs at least: its decoded message, its response, its entries in waiting lists.
LEAST_WAITING_BYTES = 4 * 1024
# A request up to this size costs no more than its connection does anyway: its receive and send buffers in the kernel.
SMALL_REQUEST_BYTES = 64 * 1024
# The share of the limit that incomplete frames may take from complete requests, and these from frames that wait.
LARGEST_SHARE = 3 / 4
# The share that is promised to frames before their bytes come: one buffer for all of a frame costs the least.
AHEAD_SHARE = 1 / 2


class BudgetTicket:
    """An entry in the queue. `take` reserves and returns True, or returns False when it is not its turn yet."""

    __slots__ = ("granted", "size_bytes", "take")

    def __init__(self, size_bytes: int, take: Callable[[], bool], granted: Callable[[], None]) -> None:
        self.size_bytes = size_bytes
        self.take = take
        self.granted = granted


class MemoryBudget:
    """Shared by all connections of an event loop."""

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.parked_bytes = 0
        self.receiving_bytes = 0
        self.ahead_bytes = 0
        self.outside_bytes = 0
        self._receiving: dict[FrameReservation, None] = {}  # inside the limit
        self.waiting_count = 0
        self._queue: dict[BudgetTicket, None] = {}
        self._begun_frames: dict[BudgetTicket, None] = {}  # waiting, with a part already
        self._new_frames: dict[BudgetTicket, None] = {}  # waiting, behind those

    @property
    def available_bytes(self) -> int:
        """What can be reserved now without waiting; 0 while anything but frames waits."""
        return 0 if self._queue else max(self.limit_bytes - self.used_bytes, 0)

    @property
    def has_parking_room(self) -> bool:
        return self.parked_bytes < self.limit_bytes

    @property
    def is_short(self) -> bool:
        """Whether complete requests wait."""
        return bool(self._queue)

    def has_room(self, size_bytes: int) -> bool:
        if self._queue:
            return False
        if self._begun_frames or self._new_frames:
            return self._fits(size_bytes)
        used_bytes = self.used_bytes  # as `_fits`, without a call: it is asked for each small produce
        return used_bytes + size_bytes <= self.limit_bytes or used_bytes == 0

    def reserve(self, size_bytes: int) -> bool:
        return not self._queue and self._take(size_bytes)

    def reserve_anyway(self, size_bytes: int) -> None:
        """Reserve without a check, for bytes that are in memory already: others wait the longer for it."""
        self.used_bytes += size_bytes

    def reserve_later(self, size_bytes: int, granted: Callable[[], None]) -> BudgetTicket:
        """Join the queue; `granted` is called from a `release`, with the bytes reserved. It must not reserve at once."""
        return self._join(self._queue, BudgetTicket(size_bytes, lambda: self._take(size_bytes), granted))

    def _join(self, queue: dict[BudgetTicket, None], ticket: BudgetTicket) -> BudgetTicket:
        queue[ticket] = None
        self.waiting_count += 1
        return ticket

    def leave_queue(self, ticket: BudgetTicket) -> None:
        """No effect when it was granted. Others behind it may be granted now."""
        for queue in (self._queue, self._begun_frames, self._new_frames):
            if ticket in queue:
                del queue[ticket]
                self.waiting_count -= 1
        self._grant()

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0, "more bytes released than reserved"
        if self.waiting_count:
            self._grant()

    def park(self, size_bytes: int) -> None:
        """Count a small request that waits, or what remains of another: nothing of it is reserved."""
        self.parked_bytes += size_bytes

    def release_parked(self, size_bytes: int) -> None:
        self.parked_bytes -= size_bytes
        assert self.parked_bytes >= 0, "more bytes released than parked"

    def _fits(self, size_bytes: int) -> bool:
        used_bytes = self.used_bytes + size_bytes
        if used_bytes > self.limit_bytes:
            return self.used_bytes == 0
        if not (self._begun_frames or self._new_frames):
            return True
        return used_bytes - self.receiving_bytes <= self.limit_bytes * LARGEST_SHARE

    def _take(self, size_bytes: int) -> bool:
        if not self._fits(size_bytes):
            return False
        self.used_bytes += size_bytes
        return True

    def _grant(self) -> None:
        while self._grant_first(self._queue) or self._grant_first(self._begun_frames or self._new_frames):
            pass

    def _grant_first(self, queue: dict[BudgetTicket, None]) -> bool:
        for ticket in queue:
            if ticket.take():
                del queue[ticket]
                self.waiting_count -= 1
                ticket.granted()
                return True
            return False
        return False


class FrameReservation:
    """What an incomplete frame has of a budget: `granted_bytes` of its `size_bytes` may be received.

    Life: `take` as often as more is needed, or `wait` until it was granted; at last `complete`, or `drop`.
    """

    # It is the other half of `MemoryBudget`.
    # ruff: noqa: SLF001

    __slots__ = ("_ahead_bytes", "_budget", "_is_outside", "_step_bytes", "granted_bytes", "size_bytes")

    def __init__(self, budget: MemoryBudget, size_bytes: int, step_bytes: int) -> None:
        """`step_bytes` is the least that is granted at a time, but for the last step."""
        self._budget = budget
        self._step_bytes = step_bytes
        self._ahead_bytes = 0
        self._is_outside = False
        self.size_bytes = size_bytes
        self.granted_bytes = 0

    def take(self) -> bool:
        """Reserve all, or the next step. False when another frame is before it or there is no room: `wait`."""
        budget = self._budget
        if budget._begun_frames or (budget._new_frames and not self.granted_bytes):
            return False
        return self._take()

    def wait(self, granted: Callable[[], None]) -> BudgetTicket:
        budget = self._budget
        queue = budget._begun_frames if self.granted_bytes else budget._new_frames
        return budget._join(queue, BudgetTicket(self.size_bytes, self._take, granted))

    def complete(self) -> None:
        """The frame is complete. The bytes stay reserved until the request releases them."""
        is_outside = self._is_outside
        self._leave()
        if is_outside:
            self._budget.used_bytes += self.size_bytes
        self._budget.release(0)  # others may be granted the share that it had while incomplete

    def drop(self) -> None:
        """The frame will not be completed. If it waited, it has left the queue before."""
        is_outside = self._is_outside
        self._leave()
        self._budget.release(0 if is_outside else self.granted_bytes)  # it may be another's turn to be outside

    def _leave(self) -> None:
        """Count no longer as an incomplete frame."""
        budget = self._budget
        if self._is_outside:
            budget.outside_bytes = 0
        elif self.granted_bytes:
            del budget._receiving[self]
            budget.receiving_bytes -= self.granted_bytes
            budget.ahead_bytes -= self._ahead_bytes
        self._is_outside = False
        self._ahead_bytes = 0

    def _take(self) -> bool:
        budget = self._budget
        least_bytes = min(self.size_bytes - self.granted_bytes, self._step_bytes)
        share_bytes = int(budget.limit_bytes * LARGEST_SHARE)
        if 0 < budget.receiving_bytes > share_bytes - least_bytes:
            if budget.outside_bytes or budget.used_bytes > budget.limit_bytes:
                return False
            if self.granted_bytes:
                self._go_outside()
                return True
            max(budget._receiving, key=lambda frame: frame.granted_bytes)._go_outside()
        more_bytes = self._next_bytes(least_bytes, share_bytes)
        if not more_bytes:
            return False
        budget.used_bytes += more_bytes
        budget.receiving_bytes += more_bytes
        budget._receiving[self] = None
        self.granted_bytes += more_bytes
        return True

    def _go_outside(self) -> None:
        budget = self._budget
        self._leave()
        budget.used_bytes -= self.granted_bytes
        budget.outside_bytes = self.granted_bytes = self.size_bytes
        self._is_outside = True

    def _next_bytes(self, least_bytes: int, share_bytes: int) -> int:
        """What can be reserved now."""
        budget = self._budget
        room_bytes = min(budget.limit_bytes - budget.used_bytes, share_bytes - budget.receiving_bytes)
        rest_bytes = self.size_bytes - self.granted_bytes
        if not self.granted_bytes and rest_bytes <= room_bytes:
            ahead_bytes = budget.ahead_bytes + rest_bytes
            if ahead_bytes <= budget.limit_bytes * AHEAD_SHARE:
                budget.ahead_bytes = ahead_bytes
                self._ahead_bytes = rest_bytes
                return rest_bytes
        if room_bytes >= least_bytes or not budget.used_bytes:
            return max(min(rest_bytes, self.granted_bytes, room_bytes), least_bytes)
        return 0
