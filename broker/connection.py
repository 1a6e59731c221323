"""One client's connection: bytes in, requests to their handlers, responses out in request order.

Rules: sans-IO; it is the `ConnectionHandler` of a `runtime.transport` stream and knows neither sockets nor event loop.
Requests in one receive buffer, which all connections share, are parsed in place. A frame that is large and not complete
gets a place of its own, into which the rest is received; a frame that holds records always has one, because they go to
the log from there. Whatever else is decoded is copied out before the buffer is used again.

Order: Produce and Fetch overlap: stage one runs at once and in order, stage two (a `Deferred`) finishes when it can,
and the answers leave in request order. Any other request is a barrier: it starts when the earlier ones have answered,
and the next starts when it has. Nothing starts inside another request's handler: what an answer unblocks runs in the
next turn of the loop.

Bounds: frame size (`socket.request.max.bytes`; for others than Produce `ConnectionLimits.max_plain_bytes`), overlapping
requests (`max_in_flight`), bytes (the shared `MemoryBudget`, held from the length prefix to the answer by frames with a
place of their own, and by every request that waits behind another), unsent bytes (the transport's high-water mark stops
reading; all connections together: `AnswerMemory`). Received bytes that cannot start yet are kept, at most one receive
buffer, and then reading stops.
A malformed frame, an unknown API or a version that is not served closes the connection with one log line.
Source: Kafka Selector, KafkaChannel, SocketServer.Processor, NetworkReceive.
"""

from __future__ import annotations

import logging
import mmap
import struct
from collections import deque
from typing import TYPE_CHECKING

from broker.answer_memory import SMALL_ANSWER_BYTES, HeldAnswers
from broker.budget import BudgetTicket
from broker.connection_shared import (
    SMALLEST_FRAME_BYTES,
    ConnectionShared,
    KiB,
    MiB,
    stranger,
)
from broker.context import ClientConnection, CloseConnection, Deferred, RequestContext
from broker.dispatch import Outcome, Route
from broker.error_responses import unsupported_api_versions
from protocol.header import decode_request_header
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.primitives import DecodeError, EncodeError
from protocol.schema import Response

if TYPE_CHECKING:
    from runtime.filesystem import Buffer
    from runtime.timer import TimerEntry
    from runtime.transport import Connection

logger = logging.getLogger(__name__)

# Size, API key, version, correlation id, the client id's length: the start of all requests but ControlledShutdown v0.
_START = struct.Struct(">ihhih")
_SIZE = struct.Struct(">i")
_CLIENT_ID_POSITION = _START.size - _SIZE.size  # in a frame, which begins behind its length
_ANSWER_TO_UNKNOWN = struct.Struct(">ii")

# A frame that is not complete and larger than this is received into a place of its own.
LARGE_FRAME_BYTES = 16 * KiB
# From this size on the place is mapped, so that a length prefix alone costs address space and no memory.
MAPPED_FRAME_BYTES = 4 * MiB
# Up to so many bytes, answers that are ready together are joined for one write.
JOINED_WRITE_BYTES = 64 * KiB
# While the budget is short, connections read no more than this at a time.
SHORT_RECEIVE_BYTES = 4 * KiB
# What a request that waits behind another costs at least: its decoded message, its answer, its places in waiting lists.
OVERLAPPED_REQUEST_BYTES = 4 * KiB

PRINCIPAL_ANONYMOUS = "User:ANONYMOUS"


class _InFlight:
    """A request that has started and whose answer has not left."""

    __slots__ = (
        "answer_bytes",
        "chunks",
        "connection",
        "correlation_id",
        "deferred",
        "held_bytes",
        "is_answered",
        "route",
        "stamp",
    )

    def __init__(
        self, connection: RequestConnection, route: Route, correlation_id: int, held_bytes: int, stamp: int
    ) -> None:
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.held_bytes = held_bytes
        self.stamp = stamp
        self.chunks: list[Buffer] = []
        self.answer_bytes = 0  # of the chunks
        self.is_answered = False
        self.deferred: Deferred[Outcome] | None = None

    def answer(self, outcome: Outcome) -> None:
        self.deferred = None
        self.connection.answered(self, outcome)


class RequestConnection:
    """Life cycle: made by the acceptor for a stream, `connected`, requests, `disconnected`; then it holds nothing."""

    __slots__ = (
        "_blocked",
        "_budget_ticket",
        "_client_id",
        "_client_id_raw",
        "_close_reason",
        "_connection",
        "_filled",
        "_finish_reason",
        "_frame",
        "_granted_bytes",
        "_has_talked",
        "_held",
        "_in_flight",
        "_is_muted",
        "_is_paused",
        "_is_settling",
        "_is_slow",
        "_leaving_bytes",
        "_listener",
        "_mute_timer",
        "_observer",
        "_out",
        "_out_bytes",
        "_routes",
        "_security_protocol",
        "_shared",
        "_tail",
        "_view",
        "active_tick",
        "client",
    )

    def __init__(self, shared: ConnectionShared, listener: str, security_protocol: str) -> None:
        self._shared = shared
        self._listener = listener
        self._security_protocol = security_protocol
        self._observer = shared.dispatch.observer
        self._routes = shared.dispatch.table.routes
        self._view = shared.receive_buffer.view
        self._connection: Connection | None = None
        self.client: ClientConnection | None = None
        self.active_tick = shared.tick
        # Receiving.
        self._tail: Buffer = b""  # received, not started yet; begins with a length prefix
        self._frame: memoryview | None = None  # a frame with a place of its own, of which `_filled` bytes are there
        self._filled = 0
        self._has_talked = False
        self._client_id_raw = b""
        self._client_id: str | None = None
        # Waiting.
        self._in_flight: deque[_InFlight] = deque()
        self._blocked = False  # the next request cannot start now
        self._granted_bytes = 0  # reserved for the next frame
        self._budget_ticket: BudgetTicket | None = None
        self._is_muted = False
        self._mute_timer: TimerEntry | None = None
        self._is_slow = False
        self._is_paused = False
        # Answering.
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._held: HeldAnswers | None = None  # once there was an answer that is not small
        self._leaving_bytes = 0  # held by answers in `_out`
        self._is_settling = False
        self._finish_reason: str | None = None
        self._close_reason: str | None = None

    # --- the stream's side ---

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        shared = self._shared
        shared.next_connection += 1
        peer, local = connection.peer, connection.local
        self.client = ClientConnection(
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
        if self._frame is not None and self._filled < len(self._frame):
            return self._frame[self._filled :]
        view, kept = self._view, len(self._tail)
        if kept:
            view[:kept] = self._tail
            view = view[kept:]
        if self._shared.budget.waiting_count:
            return view[:SHORT_RECEIVE_BYTES]
        return view

    def received(self, count: int) -> None:
        self.active_tick = self._shared.tick
        if self._close_reason is not None:
            return
        frame = self._frame
        if frame is not None and self._filled < len(frame):
            self._filled += count
            if self._filled == len(frame):
                self._go_on()
            return
        end = len(self._tail) + count
        if self._blocked or frame is not None:
            self._tail = bytes(self._view[:end])
            self._pause()
            return
        self._tail = b""
        self._consume(self._view, end)
        if self._out:
            self._flush()

    def writing_paused(self) -> None:
        self._is_slow = True
        self._blocked = True
        self._pause()

    def writing_resumed(self) -> None:
        self._is_slow = False
        if self._held is not None:
            self._held.trim()
        self._settle_soon()

    def disconnected(self, error: Exception | None) -> None:
        shared = self._shared
        if self._close_reason is None:
            self._close_reason = "closed by the client" if error is None else str(error)
        self._connection = None
        for request in self._in_flight:
            if request.deferred is not None:
                request.deferred.abandon()
            shared.budget.release(request.held_bytes)
        self._in_flight.clear()
        if self._budget_ticket is not None:
            shared.budget.leave_line(self._budget_ticket)
            self._budget_ticket = None
        shared.budget.release(self._granted_bytes)
        self._granted_bytes = 0
        self._frame, self._tail = None, b""
        self._out.clear()
        if self._held is not None:
            self._held.drop()
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
        """Whether budget is held for a frame that is still on its way."""
        return self._frame is not None and self._filled < len(self._frame)

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

    def hold(self) -> None:
        """Start and read nothing until `let_go`: the broker is not ready."""
        self._is_muted = self._blocked = True
        self._pause()

    def let_go(self) -> None:
        self._is_muted = False
        self._settle_soon()

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
        for request in list(self._in_flight):
            if request.deferred is not None:
                request.deferred.hurry()

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        """Send what is ready, then close. `reason` becomes the one log line."""
        if self._close_reason is None:
            self._log_close(reason, level)
            if self._connection is not None:
                self._flush()
                self._connection.close()

    def cut_off(self, reason: str) -> None:
        """Close at once and drop what is ready: its peer does not read. `reason` becomes the one log line."""
        if self._close_reason is None:
            self._log_close(reason, logging.WARNING)
        self._out.clear()
        for request in self._in_flight:
            request.chunks.clear()
        if self._connection is not None:
            self._connection.abort()

    def _log_close(self, reason: str, level: int) -> None:
        self._close_reason = reason
        client = self.client
        assert client is not None
        logger.log(
            level,
            "connection closed: client=%s:%d listener=%s reason=%r",
            client.peer.host,
            client.peer.port,
            client.listener,
            reason,
        )

    def abort(self) -> None:
        """Close without waiting for a peer that does not read."""
        if self._close_reason is None:
            self._close_reason = "aborted"
        if self._connection is not None:
            self._connection.abort()

    # --- receiving ---

    def _consume(self, view: memoryview, end: int) -> None:
        """Start the requests in `view[:end]`, and keep the rest as the tail."""
        position = 0
        find_route = self._routes.get
        max_plain_bytes = self._shared.limits.max_plain_bytes
        while end - position >= _START.size:
            size, api_key, version, correlation_id, client_id_bytes = _START.unpack_from(view, position)
            route = find_route(api_key << 16 | version)
            if route is None or not self._has_talked:
                if not self._is_served(view[position:], size, api_key, version):
                    return
                route = self._shared.dispatch.table.route(api_key, version)
            if not SMALLEST_FRAME_BYTES <= size <= max_plain_bytes and not self._is_size_fine(size, route):
                return
            start = position + _SIZE.size
            stop = start + size
            if stop > end:
                if size > LARGE_FRAME_BYTES:
                    self._receive_apart(view[position:end], size)
                    return
                break
            if not self._start_in_place(view[start:stop], route, version, correlation_id, client_id_bytes):
                break
            if self._close_reason is not None:
                return
            position = stop
            if self._out_bytes > JOINED_WRITE_BYTES:
                self._flush()  # which may block: the peer takes its answers slower than it asks
            if self._blocked:
                break
        if position < end:
            if _SIZE.size <= end - position < _START.size and not self._is_start_fine(view[position:]):
                return
            self._tail = bytes(view[position:end])
            if self._blocked:
                self._pause()

    def _is_served(self, view: memoryview, size: int, api_key: int, version: int) -> bool:
        """Looks at a connection's first request, and at one without a known route; closes if it cannot be served."""
        if not self._is_start_fine(view):
            return False
        self._has_talked = True
        table = self._shared.dispatch.table
        if table.route(api_key, version) is not None or api_key == ApiVersionsRequest.api_key:
            return True
        handler = table.handler(api_key)
        name = f"API key {api_key}" if handler is None else handler.api_name
        self.close(f"{name} version {version} is not served")
        return False

    def _is_start_fine(self, view: memoryview) -> bool:
        """Looks at the length prefix at the start of `view`; closes if no frame begins so."""
        limits, first = self._shared.limits, bytes(view[: _SIZE.size])
        reason = None if self._has_talked else stranger(first, self._security_protocol)
        reason = reason or limits.refusal(int.from_bytes(first, "big", signed=True), has_records=True)
        return self._is_unrefused(reason)

    def _is_size_fine(self, size: int, route: Route | None) -> bool:
        """Closes when a request of this kind may not have this size."""
        has_records = route is not None and route.has_records
        return self._is_unrefused(self._shared.limits.refusal(size, has_records=has_records))

    def _is_unrefused(self, reason: str | None) -> bool:
        if reason is not None:
            self.close(reason)
        return reason is None

    def _receive_apart(self, begun: memoryview, size: int) -> None:
        """Give a large frame, of which a part is there with its length, a place of its own once the budget has room."""
        if self._granted_bytes:
            granted = self._granted_bytes
        elif self._shared.budget.reserve(size):
            granted = size
        else:
            self._tail = bytes(begun)
            self._wait_for_budget(size)
            self._pause()
            return
        assert granted == size
        self._granted_bytes = size  # given back by the request that starts from this frame
        place = bytearray(size) if size < MAPPED_FRAME_BYTES else mmap.mmap(-1, size)
        self._frame = memoryview(place)
        self._filled = len(begun) - _SIZE.size
        self._frame[: self._filled] = begun[_SIZE.size :]

    def _wait_for_budget(self, size: int) -> None:
        self._blocked = True
        self._budget_ticket = self._shared.budget.reserve_later(size, self._on_granted)

    def _on_granted(self) -> None:
        assert self._budget_ticket is not None
        self._granted_bytes, self._budget_ticket = self._budget_ticket.size_bytes, None
        self._settle_soon()

    # --- starting ---

    def _start_in_place(
        self, frame: memoryview, route: Route | None, version: int, correlation_id: int, client_id_bytes: int
    ) -> bool:
        """Start a request that lies complete in the receive buffer. False when it has to wait."""
        if self._in_flight and not self._may_start(route):
            self._blocked = True
            return False
        if self._shared.answers.leaving_bytes:  # they will be gone in a turn or two of the loop
            self._blocked = True
            self._shared.timer.schedule(1, self._settle_soon)
            return False
        if route is None:
            self._answer_unsupported_version(version, correlation_id)
        elif route.has_records:
            size = len(frame)
            if not self._granted_bytes and not self._shared.budget.has_room(size):
                self._wait_for_budget(size)
                return False
            granted, self._granted_bytes = self._granted_bytes, 0
            self._start(route, memoryview(bytearray(frame)), correlation_id, client_id_bytes, granted)
        else:
            self._start(route, bytes(frame), correlation_id, client_id_bytes, 0)
        return True

    def _may_start(self, route: Route | None) -> bool:
        """Whether a request may start behind those in flight: only overlapping ones overlap."""
        in_flight = self._in_flight
        if not in_flight:
            return True
        return (
            route is not None
            and route.overlaps
            and in_flight[0].route.overlaps
            and len(in_flight) < self._shared.limits.max_in_flight
            and self._shared.budget.available_bytes > 0
        )

    def _start(self, route: Route, frame: Buffer, correlation_id: int, client_id_bytes: int, held_bytes: int) -> None:
        """Decode a frame and hand it to its handler. `held_bytes` are released with the answer."""
        shared = self._shared
        try:
            client_id, position = self._header(route, frame, client_id_bytes)
            # What is left over is ignored, as in Kafka: librdkafka 2.16 ends some Metadata requests with spare bytes.
            request, _ = route.decode(frame, position, shared.limits.max_elements // route.element_cost)
        except DecodeError as error:
            self._refuse_frame(route, held_bytes, str(error))
            return
        observer = self._observer
        stamp = 0 if observer is None else observer.began(route, len(frame))
        assert self.client is not None
        context = RequestContext(route.version, correlation_id, client_id, self.client, shared.services)
        outcome = shared.dispatch.handle(route, request, context)
        if type(outcome) is Deferred:
            if not held_bytes and (route.has_records or self._in_flight):
                held_bytes = max(len(frame), OVERLAPPED_REQUEST_BYTES)
                shared.budget.reserve_anyway(held_bytes)
            in_flight = _InFlight(self, route, correlation_id, held_bytes, stamp)
            self._in_flight.append(in_flight)
            in_flight.deferred = outcome
            outcome.then(in_flight.answer)
            return
        assert not isinstance(outcome, Deferred)
        if self._in_flight:
            in_flight = _InFlight(self, route, correlation_id, held_bytes, stamp)
            self._in_flight.append(in_flight)
            self.answered(in_flight, outcome)
            return
        if held_bytes:
            shared.budget.release(held_bytes)
        if outcome is None:
            if observer is not None:
                observer.answered(route, stamp, None)
        elif isinstance(outcome, CloseConnection):
            self.close(str(outcome))
        else:
            size = self._encode(route, correlation_id, outcome, self._out)
            self._out_bytes += size
            if size > SMALL_ANSWER_BYTES:
                self._leaving_bytes += size
                self._hold_answer(size)
            if size and observer is not None:
                observer.answered(route, stamp, outcome)

    def _refuse_frame(self, route: Route, held_bytes: int, reason: str) -> None:
        self._shared.budget.release(held_bytes)
        self.close(f"malformed {route.handler.api_name} version {route.version}: {reason}")

    def _header(self, route: Route, frame: Buffer, client_id_bytes: int) -> tuple[str | None, int]:
        """Client id and the message's position. A client sends the same id again and again: it is decoded once."""
        end = _CLIENT_ID_POSITION + client_id_bytes
        raw = self._client_id_raw
        if raw and frame[_CLIENT_ID_POSITION:end] == raw and end < len(frame):
            if not route.is_flexible:
                return self._client_id, end
            if frame[end] == 0:
                return self._client_id, end + 1
        header, position = decode_request_header(frame)
        if client_id_bytes > 0 and header.client_id is not None:
            self._client_id = header.client_id
            self._client_id_raw = bytes(frame[_CLIENT_ID_POSITION:end])
        return header.client_id, position

    def _answer_unsupported_version(self, version: int, correlation_id: int) -> None:
        """ApiVersions in a version from the future: the client learns from the v0 answer which one to use."""
        handler = self._shared.dispatch.table.handler(ApiVersionsRequest.api_key)
        if handler is None:
            self.close(f"ApiVersions version {version} is not served")
            return
        chunks = unsupported_api_versions(handler.first_version, handler.last_version).encode_chunks(0)
        size = sum(map(len, chunks))
        self._out += [_ANSWER_TO_UNKNOWN.pack(size + _SIZE.size, correlation_id), *chunks]
        self._out_bytes += size

    # --- answering ---

    def answered(self, request: _InFlight, outcome: Outcome) -> None:
        """A request in flight has its answer; it leaves when those before it have theirs."""
        if self._connection is None or self._close_reason is not None:
            return  # its bytes are released with the connection
        if isinstance(outcome, CloseConnection):
            self.close(str(outcome))
            return
        if outcome is not None:
            size = self._encode(request.route, request.correlation_id, outcome, request.chunks)
            if not size:
                return
            request.answer_bytes = size
            if size > SMALL_ANSWER_BYTES and not self._hold_answer(size):
                return  # it was one answer too many
        if self._observer is not None:
            self._observer.answered(request.route, request.stamp, outcome)
        request.is_answered = True
        in_flight = self._in_flight
        while in_flight and in_flight[0].is_answered:
            first = in_flight.popleft()
            self._out += first.chunks
            self._out_bytes += first.answer_bytes
            if first.answer_bytes > SMALL_ANSWER_BYTES:
                self._leaving_bytes += first.answer_bytes
            self._shared.budget.release(first.held_bytes)
        if self._out or self._blocked:
            self._settle_soon()

    def _hold_answer(self, size: int) -> bool:
        """False when this connection was cut off for it."""
        if self._held is None:
            self._held = HeldAnswers(self._shared.answers, self)
        self._held.add(size)
        return not self._held.is_cut_off

    def _encode(self, route: Route, correlation_id: int, response: Response, out: list[Buffer]) -> int:
        """Append the response's frame to `out`; its size. 0 when it cannot be expressed: a bug; the connection closes."""
        try:
            chunks = route.encode(response, b"")
        except EncodeError as error:
            logger.exception("response cannot be encoded: api=%s version=%d", route.handler.api_name, route.version)
            self.close(f"the answer to {route.handler.api_name} cannot be encoded: {error}")
            return 0
        size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
        out.append(route.head(size + route.head_bytes, correlation_id))
        out += chunks
        return size

    def _flush(self) -> None:
        out = self._out
        if not out or self._connection is None:
            return
        if self._held is not None:
            self._held.wrote(sum(map(len, out)), self._leaving_bytes)
            self._leaving_bytes = 0
        if self._out_bytes <= JOINED_WRITE_BYTES:
            self._connection.write([b"".join(out)])
            out.clear()
        else:
            self._out = []
            self._connection.write(out)
        self._out_bytes = 0

    # --- going on ---

    def _settle_soon(self) -> None:
        """In the next turn of the loop, send what is ready and start what may start."""
        if not self._is_settling:
            self._is_settling = True
            self._shared.call_soon(self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        if self._connection is None or self._close_reason is not None:
            return
        self._flush()
        if self._finish_reason is not None:
            if not self._in_flight:
                self.close(self._finish_reason, level=logging.DEBUG)
            return
        if self._blocked and not self._is_slow and not self._is_muted and self._budget_ticket is None:
            self._go_on()

    def _unmute(self) -> None:
        self._is_muted = False
        self._mute_timer = None
        self._settle_soon()

    def _go_on(self) -> None:
        """Start what was kept: first a complete frame of its own, then the tail."""
        self._blocked = False
        frame = self._frame
        if frame is not None and self._filled == len(frame):
            _, api_key, version, correlation_id, client_id_bytes = _START.unpack(_SIZE.pack(0) + bytes(frame[:10]))
            route = self._shared.dispatch.table.route(api_key, version)
            if not self._may_start(route):
                self._blocked = True
                return
            held_bytes, self._granted_bytes = self._granted_bytes, 0
            self._frame = None
            self._filled = 0
            if route is None:
                self._shared.budget.release(held_bytes)
                self._answer_unsupported_version(version, correlation_id)
            else:
                self._start(route, frame, correlation_id, client_id_bytes, held_bytes)
        if self._close_reason is None and self._tail and not self._blocked:
            tail, self._tail = memoryview(self._tail), b""
            self._consume(tail, len(tail))
        if self._close_reason is None:
            self._flush()
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
