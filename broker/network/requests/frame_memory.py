"""The memory of a connection's next request: what it has of a budget, and its place in the queue for more.

Rules: no IO. A frame with a buffer of its own is reserved as it comes, in steps; a request that lies complete in the receive
buffer, and whose records need a copy, as a whole. While it waits, the connection starts nothing and reads nothing.
Invariant: what is reserved is handed over with the request that starts, or released when the connection is closed.
Source: Kafka SocketServer's memory pool (KIP-72).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.connections.connection_phase import WAITS_FOR_MEMORY
from broker.network.memory_budget import SMALL_REQUEST_BYTES, BudgetTicket, FrameReservation

if TYPE_CHECKING:
    from broker.network.connections.connection_life import ConnectionLife
    from broker.network.connections.connection_shared import ConnectionShared
    from broker.network.requests.large_frame import LargeFrame
    from broker.network.routes import Route


class FrameMemory:
    """Owned by a connection. `granted_bytes` are reserved for its next frame, which is complete; `budget` is that of these
    bytes, or of those it reserves or waits for; `reservation` is of a frame that is not complete."""

    __slots__ = ("_frame", "_life", "_queued_tick", "_shared", "_ticket", "budget", "granted_bytes", "reservation")

    def __init__(self, shared: ConnectionShared, life: ConnectionLife) -> None:
        self._shared = shared
        self._life = life
        self.budget = shared.budget
        self.granted_bytes = 0
        self.reservation: FrameReservation | None = None
        self._frame: LargeFrame | None = None  # the one that waits for its next step
        self._ticket: BudgetTicket | None = None
        self._queued_tick = 0  # when it joined the queue of the budget

    # --- a frame with a buffer of its own ---

    def reserve_frame(self, route: Route | None, size: int, received_bytes: int) -> FrameReservation | None:
        """Reserve the first step of a frame of which at most `received_bytes` are there. None: it waits, and asks again once it
        is granted."""
        reservation = self.reservation
        if reservation is None:
            self.budget = self._shared.budget_of(route)
            reservation = FrameReservation(self.budget, size, max(SMALL_REQUEST_BYTES, received_bytes))
            self.reservation = reservation
            if not reservation.take():
                self._wait(reservation.wait(self._on_frame_granted))
                return None
        assert reservation.size_bytes == size
        return reservation

    def reserve_more(self, frame: LargeFrame) -> bool:
        """Reserve the next step for a frame that has received all that was reserved for it. False: it waits."""
        if frame.reservation.take():
            return True
        self._frame = frame
        self._wait(frame.reservation.wait(self._on_frame_granted))
        return False

    def complete(self, frame: LargeFrame) -> None:
        """The frame is complete. Its bytes are released by the request that starts from it."""
        frame.reservation.complete()
        self.reservation = None
        self.granted_bytes = frame.reservation.size_bytes

    # --- a request that lies in the receive buffer ---

    def reserve_later(self, size: int) -> None:
        """Wait for the memory of a request with records."""
        self.budget = self._shared.budget
        self._wait(self.budget.reserve_later(size, self._on_granted))

    def take_granted(self) -> int:
        """Hand over what is reserved."""
        granted_bytes, self.granted_bytes = self.granted_bytes, 0
        return granted_bytes

    # --- waiting ---

    @property
    def is_waiting_for_a_frame(self) -> bool:
        """Whether memory is reserved for a frame whose next bytes could come."""
        return self.reservation is not None and self._ticket is None

    def has_waited(self, ticks: int) -> bool:
        return self._ticket is not None and self._shared.tick - self._queued_tick > ticks

    def close(self) -> None:
        """The connection is closed: leave the queue, and release everything."""
        if self._ticket is not None:
            self.budget.leave_queue(self._ticket)
            self._ticket = None
        if self.reservation is not None:
            self.reservation.drop()
            self.reservation = None
        self.budget.release(self.take_granted())
        self._frame = None

    def _wait(self, ticket: BudgetTicket) -> None:
        self._ticket = ticket
        self._queued_tick = self._shared.tick
        self._life.hold(WAITS_FOR_MEMORY)

    def _on_granted(self) -> None:
        assert self._ticket is not None
        self.granted_bytes = self._ticket.size_bytes
        self._end_wait()

    def _on_frame_granted(self) -> None:
        frame, self._frame = self._frame, None
        if frame is not None:
            frame.waited(self._shared.tick - self._queued_tick)
        self._end_wait()

    def _end_wait(self) -> None:
        self._ticket = None
        self._life.active_tick = self._shared.tick  # it was not the client that was quiet
        self._life.release(WAITS_FOR_MEMORY)
