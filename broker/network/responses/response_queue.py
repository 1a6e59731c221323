"""One connection's responses: from a handler's outcome to the stream, in the order of the requests.

A request whose response comes later waits in flight; a response that is ready early waits for those before it. Responses
that may be sent are collected and written together.

Rules: sans-IO, like the connection that owns it; nothing is written from inside a handler that completes a `Deferred`:
the connection is asked to continue in the next turn of the loop.
Invariants: responses are sent in the order of their requests, each charged once at the gate (`broker.network.gate`); the bytes
that a request has in the budget are released once, when its response is ready to be sent or the connection is closed (of a
barrier, when its handler is through); once a request's frame is released, and while a response waits for earlier ones, they are
few and parked; responses that are not small are counted in the `ResponseMemory` from their encoding on, as far as they are in
memory: ranges of files are not. A range is longer than `JOINED_WRITE_BYTES`.
Source: Kafka Processor's response queue, NetworkSend.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.network.dispatch import FastPath, Outcome
from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.responses.deferred import CloseConnection, Deferred, EncodedResponse
from broker.network.responses.error_responses import unsupported_api_versions
from broker.network.responses.response_memory import SMALL_RESPONSE_BYTES, BufferedResponses
from broker.network.routes import THROTTLE_TIME, Route
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.primitives import EncodeError
from protocol.schema import Response
from runtime.network.file_range import ranges_of

if TYPE_CHECKING:
    from broker.network.connections.connection_life import ConnectionLife
    from broker.network.connections.connection_shared import ConnectionShared
    from broker.network.request_context import RequestContext
    from runtime.disk.filesystem import Buffer
    from runtime.network.file_range import Piece
    from runtime.network.transport import Connection

logger = logging.getLogger(__name__)

# Up to so many bytes, responses that are ready together are joined for one write.
JOINED_WRITE_BYTES = 64 * 1024

_HEAD_V0 = struct.Struct(">ii")  # size and correlation id
_CORRELATION_BYTES = 4


class StartedRequest(NamedTuple):
    """A request on its way to its handler: what its response needs. `context` may be that of an earlier request which it
    repeats. `reserved_bytes` of the budget are released when the response is ready to be sent. `stamp` is the observer's."""

    route: Route
    context: RequestContext
    correlation_id: int
    size_bytes: int
    reserved_bytes: int
    stamp: int


class InFlightRequest:
    """A request that has started and whose response has not been handed to the stream."""

    __slots__ = (
        "chunks",
        "counted_bytes",
        "deferred",
        "is_parked",
        "is_ready",
        "overlaps",
        "queue",
        "reserved_bytes",
        "response_bytes",
        "route",
        "started",
        "waiting_since",
    )

    def __init__(
        self, queue: ResponseQueue, started: StartedRequest, reserved_bytes: int, *, is_parked: bool = False
    ) -> None:
        self.queue = queue
        self.started = started
        self.route = started.route
        self.reserved_bytes = reserved_bytes
        self.is_parked = is_parked  # its bytes are parked, not reserved
        self.chunks: list[Piece] = []
        self.response_bytes = 0  # of the chunks
        self.counted_bytes = 0  # of them, in memory, unless they are few
        self.is_ready = False
        self.overlaps = started.route.overlaps
        self.deferred: Deferred[Outcome] | None = None
        self.waiting_since = 0  # the observer's; 0 when the outcome was there immediately

    def on_outcome(self, outcome: Outcome) -> None:
        self.deferred = None
        self.queue.on_outcome(self, outcome)

    def release_frame(self) -> None:
        """The bytes of its frame are needed no longer, and the response is still to come."""
        self.queue.park(self)


def _release(request: InFlightRequest, shared: ConnectionShared, _outcome: Outcome = None) -> None:
    reserved_bytes = request.reserved_bytes
    if not reserved_bytes:
        return
    if request.is_parked:
        shared.parking_of(request.route).release_parked(reserved_bytes)
    elif request.route.is_plain:
        shared.plain_budget.release(reserved_bytes)
    else:
        shared.budget.release(reserved_bytes)


class ResponseQueue:
    """Owned by a connection. `stream` is None while nothing can be sent: before the connection is made, and from its end on.

    `in_flight` are the requests that have started, oldest first; `out_bytes`, what is ready and not yet written.
    """

    __slots__ = (
        "_buffered",
        "_charge",
        "_counted_out_bytes",
        "_life",
        "_observer",
        "_out",
        "_range_bytes",
        "_shared",
        "in_flight",
        "out_bytes",
        "stream",
    )

    def __init__(self, shared: ConnectionShared, life: ConnectionLife) -> None:
        self._shared = shared
        self._life = life
        self._observer = shared.dispatch.observer
        self._charge = shared.dispatch.gate.charge
        self.stream: Connection | None = None
        self.in_flight: deque[InFlightRequest] = deque()
        self._out: list[Piece] = []
        self.out_bytes = 0
        self._buffered: BufferedResponses | None = None  # since the first response that is not small
        self._counted_out_bytes = 0  # of the responses in `_out` that are not small, in memory
        self._range_bytes = 0  # of the response that was encoded last

    # --- requests that have started ---

    def wait_for(
        self, deferred: Deferred[Outcome], started: StartedRequest, reserved_bytes: int, *, is_parked: bool = False
    ) -> None:
        """The response of a request comes later, which until then has `reserved_bytes` of the budget in place of those with
        which it started. `is_parked`: they are parked, not reserved."""
        request = InFlightRequest(self, started, reserved_bytes, is_parked=is_parked)
        self.in_flight.append(request)
        request.deferred = deferred
        if self._observer is not None:
            request.waiting_since = self._observer.waits()
        if deferred.is_barrier:
            request.overlaps = False
        if reserved_bytes and deferred.keeps_request:
            deferred.frame_owner = request
        deferred.then(request.on_outcome)

    def respond(self, outcome: Outcome, started: StartedRequest) -> None:
        """The outcome of a request is there when its handler returns."""
        if self.in_flight:
            request = InFlightRequest(self, started, started.reserved_bytes)
            self.in_flight.append(request)
            self.on_outcome(request, outcome)
            return
        if started.reserved_bytes:
            self._shared.budget_of(started.route).release(started.reserved_bytes)
        if isinstance(outcome, CloseConnection):
            self._life.close(str(outcome))
            return
        size = self._encode(started, outcome, self._out)
        if size < 0:
            return
        self.out_bytes += size
        if size > SMALL_RESPONSE_BYTES:
            counted_bytes = size - self._range_bytes
            if counted_bytes > SMALL_RESPONSE_BYTES:
                self._counted_out_bytes += counted_bytes
                self._count_buffered(counted_bytes)
        if self._observer is not None:
            self._observer.answered(started.route, started.stamp, outcome)

    def respond_encoded(self, frame: bytes, path: FastPath, correlation_id: int, size_bytes: int, stamp: int) -> None:
        """The response of a request on the fast path is there, and small."""
        route = path.route
        assert route is not None
        throttle_time_ms = self._charge(route, path.context, size_bytes, len(frame), None)
        if throttle_time_ms:
            frame = path.throttled(frame, throttle_time_ms)
            self._life.mute(throttle_time_ms)
        if self.in_flight:
            started = StartedRequest(route, path.context, correlation_id, size_bytes, 0, stamp)
            request = InFlightRequest(self, started, 0)
            request.chunks.append(frame)
            request.response_bytes = len(frame)
            request.is_ready = True  # it is sent with those before it
            self.in_flight.append(request)
        else:
            self._out.append(frame)
            self.out_bytes += len(frame)
        if self._observer is not None:
            self._observer.answered_encoded(route, stamp)

    def on_outcome(self, request: InFlightRequest, outcome: Outcome) -> None:
        """A request in flight has its outcome; its response is sent when those before it have theirs."""
        if self.stream is None:
            return  # its bytes are released when the connection is closed
        if isinstance(outcome, CloseConnection):
            self._life.close(str(outcome))
            return
        size = self._encode(request.started, outcome, request.chunks)
        if size < 0:
            return
        request.response_bytes = size
        if size > SMALL_RESPONSE_BYTES:
            counted_bytes = size - self._range_bytes
            if counted_bytes > SMALL_RESPONSE_BYTES:
                request.counted_bytes = counted_bytes
                if not self._count_buffered(counted_bytes):
                    return  # it was one response too many
        if self._observer is not None:
            self._observer.answered(request.route, request.started.stamp, outcome, request.waiting_since)
        request.is_ready = True
        in_flight = self.in_flight
        if in_flight[0] is not request and request.reserved_bytes:
            self.park(request)
            request.overlaps = request.route.overlaps
        while in_flight and in_flight[0].is_ready:
            first = in_flight.popleft()
            self._out += first.chunks
            self.out_bytes += first.response_bytes
            self._counted_out_bytes += first.counted_bytes
            _release(first, self._shared)
        self._life.continue_soon()

    def park(self, request: InFlightRequest) -> None:
        """Exchange the reserved bytes of a request for few parked ones: it has done its work, and its response waits for an
        earlier one, which may be a long poll, or for other brokers and clients. Nobody else should have to wait for that."""
        _release(request, self._shared)
        request.reserved_bytes = LEAST_WAITING_BYTES
        request.is_parked = True
        self._shared.parking_of(request.route).park(LEAST_WAITING_BYTES)

    def respond_unsupported_version(self, version: int, correlation_id: int) -> None:
        """Respond to ApiVersions in a version from the future: the client learns from the v0 response which one to use."""
        handler = self._shared.dispatch.table.handler(ApiVersionsRequest.api_key)
        if handler is None:
            self._life.close(f"ApiVersions version {version} is not served")
            return
        chunks = unsupported_api_versions(handler.first_version, handler.last_version).encode_chunks(0)
        size = sum(map(len, chunks))
        self._out += [_HEAD_V0.pack(size + _CORRELATION_BYTES, correlation_id), *chunks]
        self.out_bytes += size

    def expedite(self) -> None:
        """The broker stops: requests that wait only to spare their client another one should wait no longer."""
        for request in list(self.in_flight):
            if request.deferred is not None:
                request.deferred.expedite()

    # --- encoding and sending ---

    def _encode(self, started: StartedRequest, response: Response | EncodedResponse | None, out: list[Piece]) -> int:
        """Append the frame of a response to `out`, charge it, and return its size: 0 when nothing is to be sent, -1 when it
        cannot be expressed, which is a bug and closes the connection. Of one that is not small `_range_bytes` are in files."""
        route = started.route
        if response is None:
            throttle_time_ms = self._charge(route, started.context, started.size_bytes, 0, None)
            if throttle_time_ms:
                self._life.mute(throttle_time_ms)
            return 0
        try:
            chunks: list[Buffer]
            if isinstance(response, EncodedResponse):
                chunks, response = [response.message], response.response
            else:
                chunks = route.encode(response, b"")
            size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
            throttle_time_ms = self._charge(route, started.context, started.size_bytes, size, response)
            if throttle_time_ms:
                chunks = self._throttled(route, response, throttle_time_ms)
                size = sum(map(len, chunks))
        except EncodeError as error:
            logger.exception("response not encoded: api=%s version=%d", route.handler.api_name, route.version)
            self._life.close(f"the response to {route.handler.api_name} cannot be encoded: {error}")
            return -1
        if size > SMALL_RESPONSE_BYTES:
            self._range_bytes = sum(map(len, ranges_of(chunks))) if route.overlaps else 0
        out.append(route.head(size + route.head_bytes, started.correlation_id))
        out += chunks
        return size

    def _throttled(self, route: Route, response: Response, throttle_time_ms: int) -> list[Buffer]:
        """Mute the client, and encode the response with its throttle time where it has one. Raises EncodeError."""
        self._life.mute(throttle_time_ms)
        if route.has_throttle_time:
            response = copy(response)  # it may be sent again
            setattr(response, THROTTLE_TIME, throttle_time_ms)
        return route.encode(response, b"")

    def _count_buffered(self, size: int) -> bool:
        """Count a response until it is sent. False when the connection was closed for it."""
        if self._buffered is None:
            self._buffered = BufferedResponses(self._shared.response_memory, self._life)
        self._buffered.add(size)
        return not self._buffered.is_disconnected

    def flush(self) -> None:
        """Write what is ready."""
        out = self._out
        if not out or self.stream is None:
            return
        if self._buffered is not None:
            self._buffered.wrote(sum(map(len, out)), self._counted_out_bytes)
            self._counted_out_bytes = 0
        if self.out_bytes <= JOINED_WRITE_BYTES:
            piece = out[0] if len(out) == 1 else b"".join(out)  # type: ignore[arg-type]  # a range would be longer
            self.stream.write([piece])
            out.clear()
        else:
            self._out = []
            self.stream.write(out)
        self.out_bytes = 0

    def trim(self) -> None:
        """The peer took something: release what was sent."""
        if self._buffered is not None:
            self._buffered.trim()

    # --- the end ---

    def end_writing(self, flushes: bool) -> None:
        """Write what is ready, or drop it, and write nothing any more. What the responses count in the `ResponseMemory` is
        released by `close`."""
        if flushes:
            self.flush()
        else:
            self._out.clear()
            for request in self.in_flight:
                request.chunks.clear()
        self.stream = None

    def close(self) -> None:
        """The connection is closed: abandon what waits, and release everything."""
        self.stream = None
        shared = self._shared
        for request in self.in_flight:
            deferred = request.deferred
            if deferred is not None:
                deferred.abandon()
                if deferred.is_barrier:  # its handler still works on the frame
                    deferred.then(partial(_release, request, shared))
                    continue
            _release(request, shared)
        self.in_flight.clear()
        self._out.clear()
        if self._buffered is not None:
            self._buffered.drop()
