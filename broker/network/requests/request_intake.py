"""What one connection has received: from its bytes to requests that start.

Requests in one receive buffer, which all connections share, are parsed in place. A frame that is large and not complete
gets a buffer of its own, into which the rest is received; a frame with records always has one, because they go to
the log from there. Whatever else is decoded is copied before the shared buffer is used again.

Rules: sans-IO, like the connection that owns it. Produce and Fetch overlap; any other request is a barrier: it starts when the
earlier ones have their responses, and the next starts when it has. Nothing starts inside another request's handler.
Bounds: frame size (`socket.request.max.bytes`; for others than Produce `ConnectionLimits.max_plain_bytes`), overlapping
requests (`max_in_flight`), bytes (`broker.network.requests.frame_memory`), time in one turn of the loop (`TURN_MS`).
Received bytes that cannot start yet are kept, at most one receive buffer, and then reading stops.
Source: Kafka Selector, NetworkReceive, SocketServer.Processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.connections.connection_limits import SMALLEST_FRAME_BYTES, KiB
from broker.network.connections.connection_phase import (
    WAITS_FOR_EARLIER,
    WAITS_LONG,
    ConnectionPhase,
)
from broker.network.requests.frame_checks import FrameChecks
from broker.network.requests.frame_memory import FrameMemory
from broker.network.requests.header_reader import SIZE, START
from broker.network.requests.large_frame import LARGE_FRAME_BYTES, LargeFrame
from broker.network.requests.request_starter import RequestStarter
from broker.network.responses.response_queue import JOINED_WRITE_BYTES, ResponseQueue

if TYPE_CHECKING:
    from broker.network.connections.connection_life import ConnectionLife
    from broker.network.connections.connection_shared import ConnectionShared
    from broker.network.routes import Route
    from broker.network.sasl.authentication import Authentication
    from runtime.disk.filesystem import Buffer

# While the budget is short, connections read no more than this at a time.
SHORT_RECEIVE_BYTES = 4 * KiB
# Requests that came together start one after the other for so long, then other connections have their turn.
TURN_MS = 5

# As plain numbers: they are compared for every request, and to compare members of an enum costs a call.
_AUTHENTICATING, _SERVING, _FINISHING, _CLOSING = (
    int(phase)
    for phase in (
        ConnectionPhase.AUTHENTICATING, ConnectionPhase.SERVING, ConnectionPhase.FINISHING, ConnectionPhase.CLOSING,
    )
)  # fmt: skip


class RequestIntake:
    """Owned by a connection. `served_keys` says which APIs may start (None: all), `memory` what the next frame has of the
    budget."""

    __slots__ = (
        "_authentication",
        "_checks",
        "_frame",
        "_in_flight",
        "_life",
        "_responses",
        "_routes",
        "_shared",
        "_starter",
        "_tail",
        "_view",
        "memory",
        "served_keys",
    )

    def __init__(
        self,
        shared: ConnectionShared,
        life: ConnectionLife,
        responses: ResponseQueue,
        security_protocol: str,
        authentication: Authentication | None,
    ) -> None:
        self._shared = shared
        self._life = life
        self._responses = responses
        self._in_flight = responses.in_flight
        self._authentication = authentication
        self._routes = shared.dispatch.table.routes
        self._view = shared.receive_buffer.view
        self._checks = FrameChecks(shared, life, security_protocol, authentication)
        self._starter = RequestStarter(shared, life, responses)
        self._tail: Buffer = b""  # received, not started yet; begins with a length prefix
        self._frame: LargeFrame | None = None
        self.memory = FrameMemory(shared, life)
        self.served_keys: frozenset[int] | None = None

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
        life = self._life
        life.active_tick = self._shared.tick
        if life.phase != _SERVING and not self._takes_requests(count):
            return
        frame = self._frame
        if frame is not None and not frame.is_complete:
            if frame.received(count):
                self._on_frame_complete(frame)
            elif frame.needs_more:
                self.memory.reserve_more(frame)
            return
        end = len(self._tail) + count
        if life.waits or frame is not None:
            self._tail = bytes(self._view[:end])
            life.pause_reading()
            return
        self._tail = b""
        self._consume(self._view, end)
        self._responses.flush()

    def is_slow_sender(self, after_ticks: int, within_ticks: int) -> bool:
        """Whether its frame comes too slowly (`LargeFrame.is_slow`). A frame that waits for memory itself is not slow."""
        frame = self._frame
        if frame is None or not self.memory.is_waiting_for_a_frame:
            return False
        return frame.is_slow(self._shared.tick, after_ticks, within_ticks)

    @property
    def waits_for_broker(self) -> bool:
        """Whether a request waits for the broker to be ready."""
        return self.served_keys is not None and bool(self._tail or self._frame)

    def keep(self, rest: Buffer) -> None:
        """Start from these bytes next, in the next turn of the loop."""
        self._tail = rest
        if rest:
            self._life.hold(WAITS_FOR_EARLIER)
            self._life.continue_soon()

    def close(self) -> None:
        """The connection is closed: drop what was received, and release its memory."""
        self.memory.close()
        self._frame, self._tail = None, b""

    # --- receiving ---

    def _takes_requests(self, count: int) -> bool:
        """Whether the bytes that have come are requests; those of an authentication are given to it."""
        authentication = self._authentication
        if self._life.phase != _AUTHENTICATING or authentication is None:
            return self._life.phase < _CLOSING
        data, self._tail = bytes(self._view[: len(self._tail) + count]), b""
        if self._life.waits:
            self._tail = data
            self._life.pause_reading()
        else:
            authentication.received(data)
        return False

    def _consume(self, view: memoryview, end: int) -> None:
        """Start the requests in `view[:end]`, and keep what does not start as the tail."""
        position, life = 0, self._life
        responses, find_route = self._responses, self._routes.get
        max_plain_bytes = self._shared.limits.max_plain_bytes
        turn_ends_ms = 0
        while end - position >= START.size:
            size, api_key, version, correlation_id, client_id_bytes = START.unpack_from(view, position)
            route = find_route(api_key << 16 | version)
            if route is None or life.phase != _SERVING:
                if not self._checks.request(view[position:], api_key, version):
                    return
                route = self._shared.dispatch.table.route(api_key, version)
            if not SMALLEST_FRAME_BYTES <= size <= max_plain_bytes and not self._checks.size(size, route):
                return
            start = position + SIZE.size
            stop = start + size
            if stop > end:
                if size > LARGE_FRAME_BYTES:
                    self._receive_large_frame(view[position:end], size, route)
                    return
                break
            if not self._start_in_place(view[start:stop], route, version, correlation_id, client_id_bytes):
                break
            if life.phase >= _CLOSING:
                return
            position = stop
            if responses.out_bytes > JOINED_WRITE_BYTES:
                responses.flush()  # after which it may wait: the peer takes its responses slower than it asks
            if position < end:
                turn_ends_ms = self._watch_turn(turn_ends_ms)
            if life.waits:
                break
        if position < end:
            self._keep_rest(view[position:end])

    def _watch_turn(self, ends_ms: int) -> int:
        """Return when this turn is over; the first call (0) begins it, so that a lone request costs no look at the clock. The
        next request waits for another turn when it is over."""
        now_ms = self._shared.timer.now_ms()
        if not ends_ms:
            return now_ms + TURN_MS
        if now_ms >= ends_ms:
            self._life.waits |= WAITS_FOR_EARLIER
            self._life.continue_soon()
        return ends_ms

    def _keep_rest(self, rest: memoryview) -> None:
        """Keep what does not start now."""
        if SIZE.size <= len(rest) < START.size and not self._checks.start(rest):
            return
        self._tail = bytes(rest)
        if self._life.waits:
            self._life.pause_reading()

    def _receive_large_frame(self, begun: memoryview, size: int, route: Route | None) -> None:
        """Give a large frame, of which a part is there with its length, a buffer of its own once the budget has room. It must
        not keep that while it waits for an earlier request, which may be a long poll."""
        if self._in_flight and not (self._in_flight[-1].route.overlaps and self._may_overlap(route)):
            self._life.waits |= WAITS_FOR_EARLIER
            self._tail = bytes(begun)
            self._life.pause_reading()
            return
        reservation = self.memory.reserve_frame(route, size, len(self._view))  # what is there fits
        if reservation is None:
            self._tail = bytes(begun)
        else:
            self._frame = LargeFrame(reservation, begun[SIZE.size :], self._shared.tick)

    def _on_frame_complete(self, frame: LargeFrame) -> None:
        """A frame with a buffer of its own is complete."""
        self.memory.complete(frame)
        if self._life.phase < _FINISHING and not self._life.waits & WAITS_LONG:
            self.start_pending()

    # --- starting ---

    def _start_in_place(
        self, frame: memoryview, route: Route | None, version: int, correlation_id: int, client_id_bytes: int
    ) -> bool:
        """Start a request that lies complete in the receive buffer. False when it has to wait."""
        if (self._in_flight or self.served_keys is not None) and not self._may_start(route):
            self._life.waits |= WAITS_FOR_EARLIER
            return False
        if self._shared.response_memory.closing_bytes:  # they will be free in a turn or two of the loop
            self._life.waits |= WAITS_FOR_EARLIER
            self._shared.timer.schedule(1, self._life.continue_soon)
            return False
        if route is None:
            self._responses.respond_unsupported_version(version, correlation_id)
        elif route.has_records:
            size, memory = len(frame), self.memory
            granted = memory.granted_bytes
            if granted:
                memory.granted_bytes = 0
            elif not self._shared.budget.has_room(size):
                memory.reserve_later(size)
                return False
            content = bytearray(frame)
            if granted or not self._starter.start_repeated(route, content, correlation_id):
                self._starter.start(route, memoryview(content), correlation_id, client_id_bytes, granted)
        else:
            whole = bytes(frame)
            if route.fast_path is None or not self._starter.start_repeated(route, whole, correlation_id):
                self._starter.start(route, whole, correlation_id, client_id_bytes, 0)
        return True

    def _may_start(self, route: Route | None) -> bool:
        """Whether a request may start: only some do before the broker is ready, only overlapping ones overlap."""
        if self.served_keys is not None and route is not None and route.handler.api_key not in self.served_keys:
            return False
        in_flight = self._in_flight
        if not in_flight:
            return True
        if route is None or not in_flight[-1].overlaps or not self._may_overlap(route):
            return False
        if self.memory.granted_bytes:  # its memory is reserved already
            return True
        budget = self._shared.parking_of(route)
        return budget.has_parking_room and (budget.available_bytes > 0 or not route.has_records)

    def _may_overlap(self, route: Route | None) -> bool:
        return route is not None and route.overlaps and len(self._in_flight) < self._shared.limits.max_in_flight

    def start_pending(self) -> None:
        """Start what was kept: first a complete frame with a buffer of its own, then the tail."""
        self._life.waits &= WAITS_LONG
        if self._life.phase == _AUTHENTICATING:
            self._continue_authentication()
            return
        frame = self._frame
        if frame is not None and frame.is_complete:
            _, api_key, version, correlation_id, client_id_bytes = START.unpack(
                SIZE.pack(0) + bytes(frame.content[:SMALLEST_FRAME_BYTES])
            )
            route = self._shared.dispatch.table.route(api_key, version)
            if not self._checks.session(api_key):
                return
            if not self._may_start(route):
                self._life.waits |= WAITS_FOR_EARLIER
                return
            reserved_bytes = self.memory.take_granted()
            self._frame = None
            if route is None:
                self.memory.budget.release(reserved_bytes)
                self._responses.respond_unsupported_version(version, correlation_id)
            else:
                self._starter.start(route, frame.content, correlation_id, client_id_bytes, reserved_bytes)
        if self._life.phase < _CLOSING and self._tail and not self._life.waits:
            tail, self._tail = memoryview(self._tail), b""
            self._consume(tail, len(tail))
        if self._life.phase < _CLOSING:
            self._responses.flush()
            if not self._life.waits:
                self._life.resume_reading()

    def _continue_authentication(self) -> None:
        """Give what was kept to the authentication, and read on."""
        tail, self._tail = self._tail, b""
        if tail and self._authentication is not None:
            self._authentication.received(tail)
        if self._life.phase < _CLOSING and not self._life.waits:
            self._life.resume_reading()
