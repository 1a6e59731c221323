"""One client's connection: bytes in, requests to their handlers, responses out in request order.

Rules: sans-IO; it is the `ConnectionHandler` of a `runtime.transport` stream and knows neither sockets nor event loop.
Requests in one receive buffer, which all connections share, are parsed in place. A frame that is large and not complete
gets a place of its own, into which the rest is received; a frame that holds records always has one, because they go to
the log from there. Whatever else is decoded is copied out before the buffer is used again.

Order: Produce and Fetch overlap: stage one runs at once and in order, stage two (a `Deferred`) finishes when it can,
and the answers leave in request order (`ResponseQueue`). Any other request is a barrier: it starts when the earlier ones
have answered, and the next starts when it has. Nothing starts inside another request's handler: what an answer unblocks
runs in the next turn of the loop.

Bounds: frame size (`socket.request.max.bytes`; for others than Produce `ConnectionLimits.max_plain_bytes`), overlapping
requests (`max_in_flight`), bytes (two shared budgets, see `broker.network.memory_budget`: held by frames with a place of
their own as they come and while something needs them, and by every request that waits behind another), unsent bytes (the
transport's high-water mark stops reading; all connections together: `ResponseMemory`). Received bytes that cannot start yet
are kept, at most one receive buffer, and then reading stops.
A malformed frame, an unknown API or a version that is not served closes the connection with one log line.
Source: Kafka Selector, KafkaChannel, SocketServer.Processor, NetworkReceive.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.network.connection_shared import (
    SMALLEST_FRAME_BYTES,
    ConnectionShared,
    KiB,
)
from broker.network.dispatch import Route
from broker.network.header_reader import SIZE, START
from broker.network.large_frame import LARGE_FRAME_BYTES, LargeFrame
from broker.network.memory_budget import SMALL_REQUEST_BYTES, BudgetTicket, FrameReservation
from broker.network.request_checks import impossible_start, stranger, unserved
from broker.network.request_context import ClientConnection
from broker.network.request_starter import RequestStarter
from broker.network.response_queue import JOINED_WRITE_BYTES, ResponseQueue

if TYPE_CHECKING:
    from runtime.filesystem import Buffer
    from runtime.timer import TimerEntry
    from runtime.transport import Connection

logger = logging.getLogger(__name__)

# While the budget is short, connections read no more than this at a time.
SHORT_RECEIVE_BYTES = 4 * KiB

PRINCIPAL_ANONYMOUS = "User:ANONYMOUS"


class RequestConnection:
    """Life cycle: made by the acceptor for a stream, `connected`, requests, `disconnected`; then it holds nothing."""

    __slots__ = (
        "_answers",
        "_blocked",
        "_budget_ticket",
        "_close_reason",
        "_connection",
        "_early_keys",
        "_finish_reason",
        "_frame",
        "_granted_bytes",
        "_has_talked",
        "_in_flight",
        "_is_muted",
        "_is_paused",
        "_is_settling",
        "_is_slow",
        "_line_tick",
        "_listener",
        "_mute_timer",
        "_reservation",
        "_routes",
        "_security_protocol",
        "_shared",
        "_starter",
        "_tail",
        "_view",
        "active_tick",
        "budget",
        "client",
    )

    def __init__(self, shared: ConnectionShared, listener: str, security_protocol: str) -> None:
        self._shared = shared
        self._listener = listener
        self._security_protocol = security_protocol
        self._routes = shared.dispatch.table.routes
        self._view = shared.receive_buffer.view
        self._connection: Connection | None = None
        self.client: ClientConnection | None = None
        self.active_tick = shared.tick
        # Receiving.
        self._tail: Buffer = b""  # received, not started yet; begins with a length prefix
        self._frame: LargeFrame | None = None
        self._reservation: FrameReservation | None = None  # of a frame that is still coming
        self._has_talked = False
        # Starting and answering.
        self._answers = ResponseQueue(shared, self)
        self._in_flight = self._answers.in_flight
        self._starter = RequestStarter(shared, self, self._answers)
        # Waiting.
        self._blocked = False  # the next request cannot start now
        self._early_keys: frozenset[int] | None = None  # while the broker is not ready: what starts all the same
        self._granted_bytes = 0  # reserved for the next frame, which is there
        self.budget = shared.budget  # of these bytes, or of what it reserves or waits for
        self._budget_ticket: BudgetTicket | None = None
        self._line_tick = 0  # at which it joined the line
        self._is_muted = False
        self._mute_timer: TimerEntry | None = None
        self._is_slow = False
        self._is_paused = False
        self._is_settling = False
        # Ending.
        self._finish_reason: str | None = None
        self._close_reason: str | None = None

    # --- the stream's side ---

    def connected(self, connection: Connection) -> None:
        self._connection = self._answers.stream = connection
        shared = self._shared
        shared.next_connection += 1
        peer, local = connection.peer, connection.local
        self.client = self._starter.client = ClientConnection(
            connection_id=f"{local.host}:{local.port}-{peer.host}:{peer.port}-{shared.next_connection}",
            listener=self._listener,
            security_protocol=self._security_protocol,
            peer=peer,
            local=local,
            principal=PRINCIPAL_ANONYMOUS,
        )
        refusal = shared.owner.admit(self)
        if refusal is not None:
            self.close(refusal)

    def receive_buffer(self, _size_hint: int) -> memoryview:
        if self._frame is not None and not self._frame.is_complete:
            return self._frame.missing
        view, kept = self._view, len(self._tail)
        if kept:
            view[:kept] = self._tail
            view = view[kept:]
        if self._shared.budget.is_short:
            return view[:SHORT_RECEIVE_BYTES]
        return view

    def received(self, count: int) -> None:
        self.active_tick = self._shared.tick
        if self._close_reason is not None:
            return
        frame = self._frame
        if frame is not None and not frame.is_complete:
            if frame.received(count):
                self._is_there(frame)
            elif frame.needs_more:
                self._reserve_more(frame)
            return
        end = len(self._tail) + count
        if self._blocked or frame is not None:
            self._tail = bytes(self._view[:end])
            self._pause()
            return
        self._tail = b""
        self._consume(self._view, end)
        self._answers.flush()

    def writing_paused(self) -> None:
        self._is_slow = True
        self._blocked = True
        self._pause()

    def writing_resumed(self) -> None:
        self._is_slow = False
        self._answers.trim()
        self.go_on_soon()

    def disconnected(self, error: Exception | None) -> None:
        shared = self._shared
        if self._close_reason is None:
            self._close_reason = "closed by the client" if error is None else str(error)
        self._connection = None
        self._answers.gone()
        if self._budget_ticket is not None:
            self.budget.leave_line(self._budget_ticket)
            self._budget_ticket = None
        if self._reservation is not None:
            self._reservation.drop()
            self._reservation = None
        self.budget.release(self._granted_bytes)
        self._granted_bytes = 0
        self._frame, self._tail = None, b""
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        shared.owner.gone(self)
        if self.client is not None:
            for callback in self.client.closed_callbacks:
                callback()
            self.client.closed_callbacks.clear()

    # --- the broker's side ---

    @property
    def is_closing(self) -> bool:
        return self._close_reason is not None

    @property
    def has_requests(self) -> bool:
        return bool(self._in_flight)

    @property
    def is_waiting_for_a_frame(self) -> bool:
        """Whether budget is held for a frame whose next bytes could come."""
        return self._reservation is not None and self._budget_ticket is None

    def has_waited_for_memory(self, ticks: int) -> bool:
        return self._budget_ticket is not None and self._shared.tick - self._line_tick > ticks

    def is_slow_sender(self, after_ticks: int, within_ticks: int) -> bool:
        """See `LargeFrame.is_slow`. A frame that waits for memory itself is not."""
        frame = self._frame
        if frame is None or not self.is_waiting_for_a_frame:
            return False
        return frame.is_slow(self._shared.tick, after_ticks, within_ticks)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes()

    def mute(self, duration_ms: int) -> None:
        """Start no request and read nothing for so long: the client is over its quota."""
        if self._close_reason is not None:
            return
        self._is_muted = self._blocked = True
        self._pause()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        self._mute_timer = self._shared.timer.schedule(duration_ms, self._unmute)

    def hold(self, early_keys: frozenset[int]) -> None:
        """Start nothing but requests of `early_keys` until `let_go`: the broker is not ready."""
        self._early_keys = early_keys
        if not early_keys:
            self._blocked = True
            self._pause()

    def let_go(self) -> None:
        self._early_keys = None
        self.go_on_soon()

    @property
    def is_held(self) -> bool:
        """Whether a request waits for the broker to be ready."""
        return self._early_keys is not None and bool(self._tail or self._frame)

    def finish(self, reason: str) -> None:
        """Start nothing any more, hurry what has begun, and close when it is answered."""
        if self._close_reason is not None:
            return
        if not self._in_flight:
            self.close(reason, level=logging.DEBUG)
            return
        self._finish_reason = reason
        self._blocked = True
        self._pause()
        self._answers.hurry()

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        """Send what is ready, then close. `reason` becomes the one log line."""
        if self._close_reason is None:
            self._log_close(reason, level)
            if self._connection is not None:
                self._answers.flush()
                self._connection.close()
            self._answers.stream = None

    def cut_off(self, reason: str) -> None:
        """Close at once and drop what is ready: its peer does not read. `reason` becomes the one log line."""
        if self._close_reason is None:
            self._log_close(reason, logging.WARNING)
        self._answers.drop_ready()
        if self._connection is not None:
            self._connection.abort()

    def _log_close(self, reason: str, level: int) -> None:
        self._close_reason = reason
        client = self.client
        assert client is not None
        logger.log(
            level,
            "connection closed: address=%s:%d listener=%s reason=%s",
            client.peer.host,
            client.peer.port,
            client.listener,
            reason,
        )

    def abort(self) -> None:
        """Close without waiting for a peer that does not read."""
        if self._close_reason is None:
            self._close_reason = "aborted"
        self._answers.stream = None
        if self._connection is not None:
            self._connection.abort()

    # --- receiving ---

    def _consume(self, view: memoryview, end: int) -> None:
        """Start the requests in `view[:end]`, and keep the rest as the tail."""
        position = 0
        answers, find_route = self._answers, self._routes.get
        max_plain_bytes = self._shared.limits.max_plain_bytes
        while end - position >= START.size:
            size, api_key, version, correlation_id, client_id_bytes = START.unpack_from(view, position)
            route = find_route(api_key << 16 | version)
            if route is None or not self._has_talked:
                if not self._is_served(view[position:], size, api_key, version):
                    return
                route = self._shared.dispatch.table.route(api_key, version)
            if not SMALLEST_FRAME_BYTES <= size <= max_plain_bytes and not self._is_size_fine(size, route):
                return
            start = position + SIZE.size
            stop = start + size
            if stop > end:
                if size > LARGE_FRAME_BYTES:
                    self._receive_apart(view[position:end], size, route)
                    return
                break
            if not self._start_in_place(view[start:stop], route, version, correlation_id, client_id_bytes):
                break
            if self._close_reason is not None:
                return
            position = stop
            if answers.out_bytes > JOINED_WRITE_BYTES:
                answers.flush()  # which may block: the peer takes its answers slower than it asks
            if self._blocked:
                break
        if position < end:
            if SIZE.size <= end - position < START.size and not self._is_start_fine(view[position:]):
                return
            self._tail = bytes(view[position:end])
            if self._blocked:
                self._pause()

    def _is_served(self, view: memoryview, size: int, api_key: int, version: int) -> bool:
        """Looks at a connection's first request, and at one without a known route; closes if it cannot be served."""
        if not self._is_start_fine(view):
            return False
        self._has_talked = True
        return self._is_unrefused(unserved(self._shared.dispatch.table, api_key, version))

    def _is_start_fine(self, view: memoryview) -> bool:
        """Looks at the length prefix at the start of `view`; closes if no frame begins so."""
        prefix = bytes(view[: SIZE.size])
        reason = None if self._has_talked else stranger(prefix, self._security_protocol)
        reason = reason or impossible_start(prefix, self._shared.limits)
        return self._is_unrefused(reason)

    def _is_size_fine(self, size: int, route: Route | None) -> bool:
        """Closes when a request of this kind may not have this size."""
        may_be_large = route is not None and (route.has_records or route.is_control)
        return self._is_unrefused(self._shared.limits.refusal(size, may_be_large=may_be_large))

    def _is_unrefused(self, reason: str | None) -> bool:
        if reason is not None:
            self.close(reason)
        return reason is None

    def _receive_apart(self, begun: memoryview, size: int, route: Route | None) -> None:
        """Give a large frame, of which a part is there with its length, a place of its own once the budget has room. It must
        not hold that while it waits for an earlier request, which may be a long poll."""
        shared = self._shared
        if self._in_flight and not (self._in_flight[-1].route.overlaps and self._may_overlap(route)):
            self._blocked = True
            self._tail = bytes(begun)
            self._pause()
            return
        reservation = self._reservation
        if reservation is None:
            step_bytes = max(SMALL_REQUEST_BYTES, len(self._view))  # what is there fits
            self.budget = shared.budget_of(route)
            reservation = self._reservation = FrameReservation(self.budget, size, step_bytes)
            if not reservation.take():
                self._tail = bytes(begun)
                self._wait_for_budget(reservation.wait(self._on_frame_granted))
                self._pause()
                return
        assert reservation.size_bytes == size
        self._frame = LargeFrame(reservation, begun[SIZE.size :], shared.tick)

    def _reserve_more(self, frame: LargeFrame) -> None:
        """A frame that is reserved in steps has received what it had."""
        if not frame.reservation.take():
            self._wait_for_budget(frame.reservation.wait(self._on_frame_granted))
            self._pause()

    def _is_there(self, frame: LargeFrame) -> None:
        """A frame of its own is complete. Its bytes are given back by the request that starts from it."""
        frame.reservation.complete()
        self._reservation = None
        self._granted_bytes = frame.reservation.size_bytes
        self._go_on()

    def _wait_for_budget(self, ticket: BudgetTicket) -> None:
        self._blocked = True
        self._budget_ticket = ticket
        self._line_tick = self._shared.tick

    def _on_granted(self) -> None:
        assert self._budget_ticket is not None
        self._granted_bytes, self._budget_ticket = self._budget_ticket.size_bytes, None
        self.active_tick = self._shared.tick  # it was not the client that was quiet
        self.go_on_soon()

    def _on_frame_granted(self) -> None:
        self._budget_ticket = None
        self.active_tick = tick = self._shared.tick
        if self._frame is not None:
            self._frame.waited(tick - self._line_tick)
        self.go_on_soon()

    # --- starting ---

    def _start_in_place(
        self, frame: memoryview, route: Route | None, version: int, correlation_id: int, client_id_bytes: int
    ) -> bool:
        """Start a request that lies complete in the receive buffer. False when it has to wait."""
        if (self._in_flight or self._early_keys is not None) and not self._may_start(route):
            self._blocked = True
            return False
        if self._shared.answers.leaving_bytes:  # they will be gone in a turn or two of the loop
            self._blocked = True
            self._shared.timer.schedule(1, self.go_on_soon)
            return False
        if route is None:
            self._answers.answer_unsupported_version(version, correlation_id)
        elif route.has_records:
            size = len(frame)
            if not self._granted_bytes and not self._shared.budget.has_room(size):
                self.budget = self._shared.budget
                self._wait_for_budget(self.budget.reserve_later(size, self._on_granted))
                return False
            granted, self._granted_bytes = self._granted_bytes, 0
            content = bytearray(frame)
            if granted or not self._starter.has_repeated(route, content, correlation_id):
                self._starter.start(route, memoryview(content), correlation_id, client_id_bytes, granted)
        else:
            self._starter.start(route, bytes(frame), correlation_id, client_id_bytes, 0)
        return True

    def _may_start(self, route: Route | None) -> bool:
        """Whether a request may start: only some do before the broker is ready, only overlapping ones overlap."""
        if self._early_keys is not None and route is not None and route.handler.api_key not in self._early_keys:
            return False
        in_flight = self._in_flight
        if not in_flight:
            return True
        if route is None or not in_flight[-1].overlaps or not self._may_overlap(route):
            return False
        if self._granted_bytes:  # it holds its memory already
            return True
        budget = self._shared.parking_of(route)
        return budget.has_parking_room and (budget.available_bytes > 0 or not route.has_records)

    def _may_overlap(self, route: Route | None) -> bool:
        return route is not None and route.overlaps and len(self._in_flight) < self._shared.limits.max_in_flight

    # --- going on ---

    def go_on_soon(self) -> None:
        """In the next turn of the loop, send what is ready and start what may start."""
        if not self._is_settling:
            self._is_settling = True
            self._shared.call_soon(self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        if self._connection is None or self._close_reason is not None:
            return
        self._answers.flush()
        if self._finish_reason is not None:
            if not self._in_flight:
                self.close(self._finish_reason, level=logging.DEBUG)
            return
        if self._blocked and not self._is_slow and not self._is_muted and self._budget_ticket is None:
            self._go_on()

    def _unmute(self) -> None:
        self._is_muted = False
        self._mute_timer = None
        self.go_on_soon()

    def _go_on(self) -> None:
        """Start what was kept: first a complete frame of its own, then the tail."""
        self._blocked = False
        frame = self._frame
        if frame is not None and frame.is_complete:
            _, api_key, version, correlation_id, client_id_bytes = START.unpack(
                SIZE.pack(0) + bytes(frame.content[:SMALLEST_FRAME_BYTES])
            )
            route = self._shared.dispatch.table.route(api_key, version)
            if not self._may_start(route):
                self._blocked = True
                return
            held_bytes, self._granted_bytes = self._granted_bytes, 0
            self._frame = None
            if route is None:
                self.budget.release(held_bytes)
                self._answers.answer_unsupported_version(version, correlation_id)
            else:
                self._starter.start(route, frame.content, correlation_id, client_id_bytes, held_bytes)
        if self._close_reason is None and self._tail and not self._blocked:
            tail, self._tail = memoryview(self._tail), b""
            self._consume(tail, len(tail))
        if self._close_reason is None:
            self._answers.flush()
            if not self._blocked:
                self._resume()

    def _pause(self) -> None:
        if not self._is_paused and self._connection is not None:
            self._is_paused = True
            self._connection.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and self._connection is not None:
            self._is_paused = False
            self._connection.resume_reading()
