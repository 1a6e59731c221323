"""One client's connection: bytes in, requests to their handlers, responses out in request order.

Rules: sans-IO; it is the `ConnectionHandler` of a `runtime.transport` stream and knows neither sockets nor event loop.
Requests in one receive buffer, which all connections share, are parsed in place. A frame that is large and not complete
gets a buffer of its own, into which the rest is received; a frame with records always has one, because they go to
the log from there. Whatever else is decoded is copied before the shared buffer is used again.

Order: Produce and Fetch overlap: stage one runs immediately and in order, stage two (a `Deferred`) finishes when it can,
and the responses are sent in request order (`ResponseQueue`). Any other request is a barrier: it starts when the earlier ones
have their responses, and the next starts when it has. Nothing starts inside another request's handler: what a response unblocks
runs in the next turn of the loop.

Bounds: frame size (`socket.request.max.bytes`; for others than Produce `ConnectionLimits.max_plain_bytes`), overlapping
requests (`max_in_flight`), bytes (two shared budgets, see `broker.network.memory_budget`: reserved for frames with a buffer of
their own as they come and while something needs them, and for every request that waits behind another), unsent bytes (the
transport's high-water mark stops reading; all connections together: `ResponseMemory`). Received bytes that cannot start yet
are kept, at most one receive buffer, and then reading stops.
Its life is a `ConnectionPhase`; a malformed frame, an unknown API or a version that is not served ends it with one log line.
Source: Kafka Selector, KafkaChannel, SocketServer.Processor, NetworkReceive.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.network.connection_phase import (
    WAITS_FOR_DELAYED_CLOSE,
    WAITS_FOR_EARLIER,
    WAITS_FOR_MEMORY,
    WAITS_FOR_QUOTA,
    WAITS_FOR_READER,
    WAITS_LONG,
    ConnectionPhase,
)
from broker.network.connection_shared import SMALLEST_FRAME_BYTES, ConnectionShared, KiB
from broker.network.dispatch import Route
from broker.network.frame_checks import FrameChecks
from broker.network.frame_memory import FrameMemory
from broker.network.header_reader import SIZE, START
from broker.network.large_frame import LARGE_FRAME_BYTES, LargeFrame
from broker.network.request_context import ClientConnection
from broker.network.request_starter import RequestStarter
from broker.network.response_queue import JOINED_WRITE_BYTES, ResponseQueue
from broker.network.sasl.authentication import Authentication
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from runtime.filesystem import Buffer
    from runtime.timer import TimerEntry
    from runtime.transport import Connection
    from security.principal import Principal

logger = logging.getLogger(__name__)

# While the budget is short, connections read no more than this at a time.
SHORT_RECEIVE_BYTES = 4 * KiB


# As plain numbers: they are compared for every request, and to compare members of an enum costs a call.
_OPENING, _AUTHENTICATING, _FIRST_REQUEST, _SERVING, _SESSION_EXPIRED, _FINISHING, _CLOSING, _CLOSED = (
    int(phase) for phase in ConnectionPhase
)


class RequestConnection:
    """Made by the acceptor for a stream, then `connected`, requests, `disconnected`; after that it keeps nothing."""

    __slots__ = (
        "_authentication",
        "_checks",
        "_connection",
        "_finish_reason",
        "_frame",
        "_in_flight",
        "_is_reading",
        "_is_scheduled",
        "_listener",
        "_mute_timer",
        "_responses",
        "_routes",
        "_security_protocol",
        "_served_keys",
        "_shared",
        "_starter",
        "_tail",
        "_view",
        "_waits",
        "active_tick",
        "client",
        "memory",
        "phase",
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
        self.phase: int = _OPENING
        self._finish_reason = ""
        self._authentication: Authentication | None = None
        common = shared.authentication
        if common is not None and listener in common.rules:
            self._authentication = Authentication(listener, common, shared, self)
        self._checks = FrameChecks(shared, self, security_protocol, self._authentication)
        # Receiving.
        self._tail: Buffer = b""  # received, not started yet; begins with a length prefix
        self._frame: LargeFrame | None = None
        self.memory = FrameMemory(shared, self)
        # Starting requests and sending responses.
        self._responses = ResponseQueue(shared, self)
        self._in_flight = self._responses.in_flight
        self._starter = RequestStarter(shared, self, self._responses)
        # Waiting.
        self._waits = 0  # why the next request does not start now: bits of `connection_phase`
        self._served_keys: frozenset[int] | None = None  # the APIs that may start; None: all
        self._mute_timer: TimerEntry | None = None
        self._is_reading = True
        self._is_scheduled = False  # to continue in the next turn of the loop

    # --- called by the stream ---

    def connected(self, connection: Connection) -> None:
        self._connection = self._responses.stream = connection
        self.phase = _FIRST_REQUEST
        shared = self._shared
        shared.next_connection += 1
        peer, local = connection.peer, connection.local
        self.client = self._starter.client = ClientConnection(
            connection_id=f"{local.host}:{local.port}-{peer.host}:{peer.port}-{shared.next_connection}",
            listener=self._listener,
            security_protocol=self._security_protocol,
            peer=peer,
            local=local,
            principal=ANONYMOUS,
        )
        refusal = shared.owner.admit(self)
        if refusal is not None:
            self.close(refusal)
        elif self._authentication is not None:
            self.phase = _AUTHENTICATING
            self._authentication.begin(connection, self.client)

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
        if self.phase != _SERVING and not self._takes_requests(count):
            return
        frame = self._frame
        if frame is not None and not frame.is_complete:
            if frame.received(count):
                self._on_frame_complete(frame)
            elif frame.needs_more:
                self.memory.reserve_more(frame)
            return
        end = len(self._tail) + count
        if self._waits or frame is not None:
            self._tail = bytes(self._view[:end])
            self._pause()
            return
        self._tail = b""
        self._consume(self._view, end)
        self._responses.flush()

    def writing_paused(self) -> None:
        self._waits |= WAITS_FOR_READER
        self._pause()

    def writing_resumed(self) -> None:
        self._stop_waiting(WAITS_FOR_READER)
        self._responses.trim()
        self.continue_soon()

    def disconnected(self, _error: Exception | None) -> None:
        shared = self._shared
        self.phase = _CLOSED
        self._connection = None
        self._responses.close()
        self.memory.close()
        self._frame, self._tail = None, b""
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        if self._authentication is not None:
            self._authentication.close()
        shared.owner.closed(self)
        if self.client is not None:
            for callback in self.client.closed_callbacks:
                callback()
            self.client.closed_callbacks.clear()

    # --- called by the broker ---

    @property
    def is_closing(self) -> bool:
        return self.phase >= _CLOSING

    @property
    def has_requests(self) -> bool:
        return bool(self._in_flight)

    def is_slow_sender(self, after_ticks: int, within_ticks: int) -> bool:
        """Whether its frame comes too slowly (`LargeFrame.is_slow`). A frame that waits for memory itself is not slow."""
        frame = self._frame
        if frame is None or not self.memory.is_waiting_for_a_frame:
            return False
        return frame.is_slow(self._shared.tick, after_ticks, within_ticks)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes()

    def mute(self, duration_ms: int) -> None:
        """Start no request and read nothing for so long: the client is over its quota. Responses are sent meanwhile."""
        if self.phase >= _CLOSING:
            return
        self._waits |= WAITS_FOR_QUOTA
        self._pause()
        before, until = self._mute_timer, self._shared.timer.schedule(duration_ms, self._unmute)
        if before is not None and before.deadline_tick > until.deadline_tick:  # of an earlier response
            until.cancel()
            return
        if before is not None:
            before.cancel()
        self._mute_timer = until

    def serve_only(self, keys: frozenset[int]) -> None:
        """Start nothing but requests of the APIs `keys` until `serve_all`: the broker is not ready."""
        self._served_keys = keys
        if not keys:
            self._waits |= WAITS_FOR_EARLIER
            self._pause()

    def serve_all(self) -> None:
        self._served_keys = None
        self.continue_soon()

    @property
    def waits_for_broker(self) -> bool:
        """Whether a request waits for the broker to be ready."""
        return self._served_keys is not None and bool(self._tail or self._frame)

    def finish(self, reason: str) -> None:
        """Start nothing any more, expedite what has started, and close when it has its responses."""
        if self.phase >= _CLOSING:
            return
        if not self._in_flight:
            self.close(reason, level=logging.DEBUG)
            return
        self.phase = _FINISHING
        self._finish_reason = reason
        self._waits |= WAITS_FOR_EARLIER
        self._pause()
        self._responses.expedite()

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        """Send what is ready, then close. `reason` becomes the one log line."""
        if self.phase < _CLOSING:
            self._begin_close(reason, level)
            if self._connection is not None:
                self._responses.flush()
                self._connection.close()
            self._responses.stream = None

    def disconnect(self, reason: str) -> None:
        """Close immediately and drop what is ready: its peer does not read. `reason` becomes the one log line."""
        if self.phase < _CLOSING:
            self._begin_close(reason, logging.WARNING)
        self._responses.drop_ready()
        if self._connection is not None:
            self._connection.abort()

    def _begin_close(self, reason: str, level: int) -> None:
        self.phase = _CLOSING
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
        """Close without waiting for a peer that does not read, and without a log line."""
        self.phase = max(self.phase, _CLOSING)
        self._responses.stream = None
        if self._connection is not None:
            self._connection.abort()

    # --- called by the authentication ---

    def authenticated(self, rest: bytes) -> None:
        """Serve requests, beginning with the bytes that came behind the exchange."""
        self.phase = _SERVING
        self._tail = rest
        if rest:
            self._waits |= WAITS_FOR_EARLIER
            self._pause()
            self.continue_soon()

    def authenticate_again(self) -> None:
        """Give all bytes that follow to the authentication, from the next turn of the loop on."""
        self.phase = _AUTHENTICATING
        self._waits |= WAITS_FOR_EARLIER
        self.continue_soon()

    def session_expired(self) -> None:
        if self.phase == _SERVING:
            self.phase = _SESSION_EXPIRED

    def pause_authentication(self) -> None:
        self._waits |= WAITS_FOR_DELAYED_CLOSE
        self._pause()

    # --- called by TLS ---

    def secured(self, principal: Principal | None, *, cipher: str, version: str) -> None:
        """The handshake is complete. `principal` is the one of the client's certificate; None: it is found otherwise."""
        client = self.client
        assert client is not None
        client.cipher, client.tls_version = cipher, version
        if principal is not None:
            client.principal = principal
            self._shared.services.metrics.authentication.authenticated(client.listener, knows_lifetime=False)

    def tls_failed(self, reason: str) -> None:
        """Close: the client has not shown who it is."""
        services, client = self._shared.services, self.client
        assert client is not None
        services.metrics.authentication.authentication_failed(self._listener)
        services.audit.login_failed(client, reason, mechanism="TLS")
        self.close(reason)

    # --- receiving ---

    def _takes_requests(self, count: int) -> bool:
        """Whether the bytes that have come are requests; those of an authentication are given to it."""
        authentication = self._authentication
        if self.phase != _AUTHENTICATING or authentication is None:
            return self.phase < _CLOSING
        data, self._tail = bytes(self._view[: len(self._tail) + count]), b""
        if self._waits:
            self._tail = data
            self._pause()
        else:
            authentication.received(data)
        return False

    def _consume(self, view: memoryview, end: int) -> None:
        """Start the requests in `view[:end]`, and keep what does not start as the tail."""
        position = 0
        responses, find_route = self._responses, self._routes.get
        max_plain_bytes = self._shared.limits.max_plain_bytes
        while end - position >= START.size:
            size, api_key, version, correlation_id, client_id_bytes = START.unpack_from(view, position)
            route = find_route(api_key << 16 | version)
            if route is None or self.phase != _SERVING:
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
            if self.phase >= _CLOSING:
                return
            position = stop
            if responses.out_bytes > JOINED_WRITE_BYTES:
                responses.flush()  # after which it may wait: the peer takes its responses slower than it asks
            if self._waits:
                break
        if position < end:
            if SIZE.size <= end - position < START.size and not self._checks.start(view[position:]):
                return
            self._tail = bytes(view[position:end])
            if self._waits:
                self._pause()

    def _receive_large_frame(self, begun: memoryview, size: int, route: Route | None) -> None:
        """Give a large frame, of which a part is there with its length, a buffer of its own once the budget has room. It must
        not keep that while it waits for an earlier request, which may be a long poll."""
        if self._in_flight and not (self._in_flight[-1].route.overlaps and self._may_overlap(route)):
            self._waits |= WAITS_FOR_EARLIER
            self._tail = bytes(begun)
            self._pause()
            return
        reservation = self.memory.reserve_frame(route, size, len(self._view))  # what is there fits
        if reservation is None:
            self._tail = bytes(begun)
        else:
            self._frame = LargeFrame(reservation, begun[SIZE.size :], self._shared.tick)

    def _on_frame_complete(self, frame: LargeFrame) -> None:
        """A frame with a buffer of its own is complete."""
        self.memory.complete(frame)
        if self.phase < _FINISHING and not self._waits & WAITS_LONG:
            self._start_pending()

    # --- called by the memory of its next frame ---

    def wait_for_memory(self) -> None:
        self._waits |= WAITS_FOR_MEMORY
        self._pause()

    def memory_granted(self) -> None:
        self.active_tick = self._shared.tick  # it was not the client that was quiet
        self._stop_waiting(WAITS_FOR_MEMORY)
        self.continue_soon()

    # --- starting ---

    def _start_in_place(
        self, frame: memoryview, route: Route | None, version: int, correlation_id: int, client_id_bytes: int
    ) -> bool:
        """Start a request that lies complete in the receive buffer. False when it has to wait."""
        if (self._in_flight or self._served_keys is not None) and not self._may_start(route):
            self._waits |= WAITS_FOR_EARLIER
            return False
        if self._shared.response_memory.closing_bytes:  # they will be free in a turn or two of the loop
            self._waits |= WAITS_FOR_EARLIER
            self._shared.timer.schedule(1, self.continue_soon)
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
            self._starter.start(route, bytes(frame), correlation_id, client_id_bytes, 0)
        return True

    def _may_start(self, route: Route | None) -> bool:
        """Whether a request may start: only some do before the broker is ready, only overlapping ones overlap."""
        if self._served_keys is not None and route is not None and route.handler.api_key not in self._served_keys:
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

    # --- continuing ---

    def continue_soon(self) -> None:
        """In the next turn of the loop, send what is ready and start what may start."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._shared.call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        if self._connection is None or self.phase >= _CLOSING:
            return
        self._responses.flush()
        if self.phase == _FINISHING:
            if not self._in_flight:
                self.close(self._finish_reason, level=logging.DEBUG)
        elif self._waits and not self._waits & WAITS_LONG:
            self._start_pending()

    def _unmute(self) -> None:
        self._mute_timer = None
        self._stop_waiting(WAITS_FOR_QUOTA)
        self.continue_soon()

    def _stop_waiting(self, reason: int) -> None:
        """One reason to wait is over. What waits is tried again by `_continue`."""
        self._waits = self._waits & ~reason | WAITS_FOR_EARLIER

    def _start_pending(self) -> None:
        """Start what was kept: first a complete frame with a buffer of its own, then the tail."""
        self._waits &= WAITS_LONG
        if self.phase == _AUTHENTICATING:
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
                self._waits |= WAITS_FOR_EARLIER
                return
            reserved_bytes = self.memory.take_granted()
            self._frame = None
            if route is None:
                self.memory.budget.release(reserved_bytes)
                self._responses.respond_unsupported_version(version, correlation_id)
            else:
                self._starter.start(route, frame.content, correlation_id, client_id_bytes, reserved_bytes)
        if self.phase < _CLOSING and self._tail and not self._waits:
            tail, self._tail = memoryview(self._tail), b""
            self._consume(tail, len(tail))
        if self.phase < _CLOSING:
            self._responses.flush()
            if not self._waits:
                self._resume()

    def _continue_authentication(self) -> None:
        """Give what was kept to the authentication, and read on."""
        tail, self._tail = self._tail, b""
        if tail and self._authentication is not None:
            self._authentication.received(tail)
        if self.phase < _CLOSING and not self._waits:
            self._resume()

    def _pause(self) -> None:
        if self._is_reading and self._connection is not None:
            self._is_reading = False
            self._connection.pause_reading()

    def _resume(self) -> None:
        if not self._is_reading and self._connection is not None:
            self._is_reading = True
            self._connection.resume_reading()
