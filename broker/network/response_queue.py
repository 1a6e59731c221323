"""One connection's answers: from a handler's outcome to the stream, in the order of the requests.

A request whose answer comes later waits in flight; an answer that is there early waits for those before it. What may
leave is collected and written at once for many requests.

Rules: sans-IO, like the connection that owns it; nothing is written from inside a handler that completes a `Deferred`:
the connection is asked to go on in the next turn of the loop.
Invariants: answers leave in request order; the budget's bytes of a request are released once, when its answer is on its
way or the connection is gone (of a barrier, when it is through); once a request is freed, and while an answer waits for
earlier ones, they are few and parked; answers that are not small are counted in the `ResponseMemory` from their encoding on.
Source: Kafka Processor's response queue, NetworkSend.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.network.dispatch import Outcome, Route
from broker.network.error_responses import unsupported_api_versions
from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.request_context import CloseConnection, Deferred
from broker.network.response_memory import SMALL_ANSWER_BYTES, BufferedResponses, ResponseSink
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.primitives import EncodeError
from protocol.schema import Response

if TYPE_CHECKING:
    from broker.network.connection_shared import ConnectionShared
    from runtime.filesystem import Buffer
    from runtime.transport import Connection

logger = logging.getLogger(__name__)

# Up to so many bytes, answers that are ready together are joined for one write.
JOINED_WRITE_BYTES = 64 * 1024

_HEAD_V0 = struct.Struct(">ii")  # size and correlation id
_CORRELATION_BYTES = 4


class ResponseOwner(ResponseSink, Protocol):
    """The connection whose requests are answered."""

    def close(self, reason: str) -> None: ...

    def go_on_soon(self) -> None:
        """Answers may leave: in the next turn of the loop, flush and start what may start."""


class _InFlight:
    """A request that has started and whose answer has not left."""

    __slots__ = (
        "answer_bytes",
        "chunks",
        "correlation_id",
        "deferred",
        "held_bytes",
        "is_answered",
        "is_parked",
        "overlaps",
        "queue",
        "route",
        "stamp",
    )

    def __init__(
        self,
        queue: ResponseQueue,
        route: Route,
        correlation_id: int,
        held_bytes: int,
        stamp: int,
        is_parked: bool = False,
    ) -> None:
        self.queue = queue
        self.route = route
        self.correlation_id = correlation_id
        self.held_bytes = held_bytes
        self.is_parked = is_parked  # what it holds is parked, not reserved
        self.stamp = stamp
        self.chunks: list[Buffer] = []
        self.answer_bytes = 0  # of the chunks
        self.is_answered = False
        self.overlaps = route.overlaps
        self.deferred: Deferred[Outcome] | None = None

    def answer(self, outcome: Outcome) -> None:
        self.deferred = None
        self.queue.answered(self, outcome)

    def free(self) -> None:
        """What came is kept no longer, and the answer is still to come."""
        self.queue.park(self)


def _release(request: _InFlight, shared: ConnectionShared, _outcome: Outcome = None) -> None:
    held_bytes = request.held_bytes
    if not held_bytes:
        return
    if request.is_parked:
        shared.parking_of(request.route).release_parked(held_bytes)
    elif request.route.is_plain:
        shared.plain_budget.release(held_bytes)
    else:
        shared.budget.release(held_bytes)


class ResponseQueue:
    """`stream` is None while nothing can be answered: before the connection is made, and from its end on.

    `in_flight` are the requests that have started, oldest first; `out_bytes`, what is ready and not yet written.
    """

    __slots__ = (
        "_asker",
        "_held",
        "_leaving_bytes",
        "_observer",
        "_out",
        "_shared",
        "in_flight",
        "out_bytes",
        "stream",
    )

    def __init__(self, shared: ConnectionShared, asker: ResponseOwner) -> None:
        self._shared = shared
        self._asker = asker
        self._observer = shared.dispatch.observer
        self.stream: Connection | None = None
        self.in_flight: deque[_InFlight] = deque()
        self._out: list[Buffer] = []
        self.out_bytes = 0
        self._held: BufferedResponses | None = None  # once there was an answer that is not small
        self._leaving_bytes = 0  # held by answers in `_out`

    # --- requests that have started ---

    def wait_for(
        self,
        deferred: Deferred[Outcome],
        route: Route,
        correlation_id: int,
        held_bytes: int,
        stamp: int,
        is_parked: bool = False,
    ) -> None:
        """A request's answer comes later. `held_bytes` of the budget, reserved or parked, are released when it leaves."""
        request = _InFlight(self, route, correlation_id, held_bytes, stamp, is_parked)
        self.in_flight.append(request)
        request.deferred = deferred
        if deferred.is_barrier:
            request.overlaps = False
        if held_bytes and deferred.keeps_request:
            deferred.holder = request
        deferred.then(request.answer)

    def answer(self, outcome: Outcome, route: Route, correlation_id: int, held_bytes: int, stamp: int) -> None:
        """A request is answered already. See `wait_for`."""
        if self.in_flight:
            request = _InFlight(self, route, correlation_id, held_bytes, stamp)
            self.in_flight.append(request)
            self.answered(request, outcome)
            return
        if held_bytes:
            self._shared.budget_of(route).release(held_bytes)
        if outcome is None:
            if self._observer is not None:
                self._observer.answered(route, stamp, None)
        elif isinstance(outcome, CloseConnection):
            self._asker.close(str(outcome))
        else:
            size = self._encode(route, correlation_id, outcome, self._out)
            self.out_bytes += size
            if size > SMALL_ANSWER_BYTES:
                self._leaving_bytes += size
                self._hold(size)
            if size and self._observer is not None:
                self._observer.answered(route, stamp, outcome)

    def answer_encoded(self, frame: bytes, route: Route, correlation_id: int, stamp: int) -> None:
        """A request is answered already, with a small frame that is ready."""
        if self.in_flight:
            request = _InFlight(self, route, correlation_id, 0, stamp)
            request.chunks.append(frame)
            request.answer_bytes = len(frame)
            request.is_answered = True  # it leaves with those before it
            self.in_flight.append(request)
        else:
            self._out.append(frame)
            self.out_bytes += len(frame)
        if self._observer is not None:
            self._observer.answered(route, stamp, None)

    def answered(self, request: _InFlight, outcome: Outcome) -> None:
        """A request in flight has its answer; it leaves when those before it have theirs."""
        if self.stream is None:
            return  # its bytes are released with the connection
        if isinstance(outcome, CloseConnection):
            self._asker.close(str(outcome))
            return
        if outcome is not None:
            size = self._encode(request.route, request.correlation_id, outcome, request.chunks)
            if not size:
                return
            request.answer_bytes = size
            if size > SMALL_ANSWER_BYTES and not self._hold(size):
                return  # it was one answer too many
        if self._observer is not None:
            self._observer.answered(request.route, request.stamp, outcome)
        request.is_answered = True
        in_flight = self.in_flight
        if in_flight[0] is not request and request.held_bytes:
            self.park(request)
            request.overlaps = request.route.overlaps
        while in_flight and in_flight[0].is_answered:
            first = in_flight.popleft()
            self._out += first.chunks
            self.out_bytes += first.answer_bytes
            if first.answer_bytes > SMALL_ANSWER_BYTES:
                self._leaving_bytes += first.answer_bytes
            _release(first, self._shared)
        self._asker.go_on_soon()

    def park(self, request: _InFlight) -> None:
        """A request has done its work, and its answer waits: for an earlier one, which may be a long poll, or for other
        brokers and clients. Nobody else should have to wait for that."""
        _release(request, self._shared)
        request.held_bytes = LEAST_WAITING_BYTES
        request.is_parked = True
        self._shared.parking_of(request.route).park(LEAST_WAITING_BYTES)

    def answer_unsupported_version(self, version: int, correlation_id: int) -> None:
        """ApiVersions in a version from the future: the client learns from the v0 answer which one to use."""
        handler = self._shared.dispatch.table.handler(ApiVersionsRequest.api_key)
        if handler is None:
            self._asker.close(f"ApiVersions version {version} is not served")
            return
        chunks = unsupported_api_versions(handler.first_version, handler.last_version).encode_chunks(0)
        size = sum(map(len, chunks))
        self._out += [_HEAD_V0.pack(size + _CORRELATION_BYTES, correlation_id), *chunks]
        self.out_bytes += size

    def hurry(self) -> None:
        """The broker stops: what waits only to spare its client a question should not."""
        for request in list(self.in_flight):
            if request.deferred is not None:
                request.deferred.hurry()

    # --- the way out ---

    def _encode(self, route: Route, correlation_id: int, response: Response, out: list[Buffer]) -> int:
        """Append the response's frame to `out`; its size. 0 when it cannot be expressed: a bug; the connection closes."""
        try:
            chunks = route.encode(response, b"")
        except EncodeError as error:
            logger.exception("response not encoded: api=%s version=%d", route.handler.api_name, route.version)
            self._asker.close(f"the answer to {route.handler.api_name} cannot be encoded: {error}")
            return 0
        size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
        out.append(route.head(size + route.head_bytes, correlation_id))
        out += chunks
        return size

    def _hold(self, size: int) -> bool:
        """False when the connection was cut off for it."""
        if self._held is None:
            self._held = BufferedResponses(self._shared.answers, self._asker)
        self._held.add(size)
        return not self._held.is_cut_off

    def flush(self) -> None:
        """Write what is ready."""
        out = self._out
        if not out or self.stream is None:
            return
        if self._held is not None:
            self._held.wrote(sum(map(len, out)), self._leaving_bytes)
            self._leaving_bytes = 0
        if self.out_bytes <= JOINED_WRITE_BYTES:
            self.stream.write([b"".join(out)])
            out.clear()
        else:
            self._out = []
            self.stream.write(out)
        self.out_bytes = 0

    def trim(self) -> None:
        """The peer took something: release what was sent."""
        if self._held is not None:
            self._held.trim()

    # --- the end ---

    def drop_ready(self) -> None:
        """Nothing is written any more. What the answers hold is released when the connection is `gone`."""
        self._out.clear()
        for request in self.in_flight:
            request.chunks.clear()

    def gone(self) -> None:
        """The connection is gone: nobody waits, nothing is held."""
        self.stream = None
        shared = self._shared
        for request in self.in_flight:
            deferred = request.deferred
            if deferred is not None:
                deferred.abandon()
                if deferred.is_barrier:  # somebody still works on what came
                    deferred.then(partial(_release, request, shared))
                    continue
            _release(request, shared)
        self.in_flight.clear()
        self._out.clear()
        if self._held is not None:
            self._held.drop()
