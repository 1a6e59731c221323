"""One connection's requests, from a whole frame to the handler and on to the response queue.

A frame is decoded and handled on the slow path, or it is recognised as the repetition of an earlier one and takes the fast path
of its API (`broker.network.dispatch.FastPath`). Both pass the gate (`broker.network.gate`).

Rules: sans-IO, like the connection that owns it, which has checked that the request may start now.
Invariants: every request that starts reaches the response queue once, unless its frame is malformed: that closes the connection
with one log line. What a request keeps in memory until its response is there is counted in the budget.
Source: Kafka SocketServer.Processor.processCompletedReceives, KafkaRequestHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.request_context import RequestContext
from broker.network.requests.header_reader import HeaderReader
from broker.network.requests.large_requests import LARGE_REQUEST_BYTES
from broker.network.responses.deferred import Deferred
from broker.network.responses.response_queue import ResponseQueue, StartedRequest
from protocol.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.connections.connection_life import ConnectionLife
    from broker.network.connections.connection_shared import ConnectionShared
    from broker.network.dispatch import FastPath, Frame, Outcome
    from broker.network.routes import Route
    from runtime.disk.filesystem import Buffer


class RequestStarter:
    """Owned by a connection."""

    __slots__ = (
        "_admit",
        "_fast_paths",
        "_in_flight",
        "_life",
        "_meter",
        "_observer",
        "_read_header",
        "_responses",
        "_shared",
    )

    def __init__(self, shared: ConnectionShared, life: ConnectionLife, responses: ResponseQueue) -> None:
        self._shared = shared
        self._life = life
        self._responses = responses
        self._in_flight = responses.in_flight
        self._observer = shared.dispatch.observer
        self._admit = shared.dispatch.gate.admit
        self._meter = shared.dispatch.gate.meter
        self._read_header = HeaderReader().read
        # Of each API that has one, since its first request, by what makes it.
        self._fast_paths: dict[Callable[[], FastPath], FastPath] = {}

    def start(
        self, route: Route, frame: Buffer, correlation_id: int, client_id_bytes: int, reserved_bytes: int
    ) -> None:
        """Decode a frame and hand it to its handler. `reserved_bytes` are released with the response."""
        shared = self._shared
        try:
            client_id, position = self._read_header(route, frame, client_id_bytes)
            # What is left over is ignored, as in Kafka: librdkafka 2.16 ends some Metadata requests with spare bytes.
            limits = shared.limits
            max_elements = limits.max_control_elements if route.is_control else limits.max_elements
            request, _ = route.decode(frame, position, max_elements // route.element_cost)
        except DecodeError as error:
            shared.budget_of(route).release(reserved_bytes)
            self._life.close(f"malformed {route.handler.api_name} version {route.version}: {error}")
            return
        observer = self._observer
        measured = route
        if route.for_followers is not None and _is_of_follower(request):
            measured = route.for_followers
        stamp = 0 if observer is None else observer.began(measured, len(frame))
        client = self._life.client
        assert client is not None
        context = RequestContext(route.version, correlation_id, client_id, client, shared.services)
        if self._meter.times_requests:
            outcome = self._meter.timed(client, shared.dispatch.handle, route, request, context)
        else:
            outcome = shared.dispatch.handle(route, request, context)
        started = StartedRequest(measured, context, correlation_id, len(frame), reserved_bytes, stamp)
        if isinstance(outcome, Deferred):
            self._wait_for(outcome, started)
        else:
            self._responses.respond(outcome, started)
        make = route.fast_path
        if make is not None:
            path = self._fast_paths.get(make)
            if path is None:
                path = self._fast_paths[make] = make()
            path.learn(route, frame, position, request, context, outcome)

    def start_repeated(self, route: Route, frame: Frame, correlation_id: int) -> bool:
        """Start a request on the fast path. False, and nothing is done, when it has to take the slow one."""
        make = route.fast_path
        path = None if make is None else self._fast_paths.get(make)
        if path is None or path.route is not route:
            return False
        new = path.recognise(frame)
        if new is None or self._admit(route, path.request, path.context) is not None:
            return False
        observer = self._observer
        stamp = 0 if observer is None else observer.began(route, len(frame))
        dispatch = self._shared.dispatch
        outcome: bytes | Outcome | Deferred[Outcome]
        if self._meter.times_requests:
            handle = dispatch.handle_fast
            outcome = self._meter.timed(path.context.connection, handle, path, frame, new, correlation_id)
        else:
            outcome = dispatch.handle_fast(path, frame, new, correlation_id)
        if isinstance(outcome, bytes):
            self._responses.respond_encoded(outcome, path, correlation_id, len(frame), stamp)
            return True
        started = StartedRequest(route, path.context, correlation_id, len(frame), 0, stamp)
        if isinstance(outcome, Deferred):
            self._wait_for(outcome, started)
        else:
            self._responses.respond(outcome, started)
        return True

    def _wait_for(self, outcome: Deferred[Outcome], started: StartedRequest) -> None:
        """The response comes later: count what the request keeps in memory until then."""
        is_parked, shared, route = False, self._shared, started.route
        reserved_bytes = started.reserved_bytes
        if not outcome.keeps_request and (reserved_bytes or route.has_records):
            if reserved_bytes:
                shared.budget_of(route).release(reserved_bytes)
            reserved_bytes, is_parked = LEAST_WAITING_BYTES, True
            shared.parking_of(route).park(reserved_bytes)
        elif reserved_bytes:
            pass  # until the response, or until the frame is released
        elif route.has_records:
            reserved_bytes = max(started.size_bytes, LEAST_WAITING_BYTES)
            shared.budget.reserve_anyway(reserved_bytes)
        elif self._in_flight or started.size_bytes > LARGE_REQUEST_BYTES:
            reserved_bytes, is_parked = max(started.size_bytes, LEAST_WAITING_BYTES), True
            shared.plain_budget.park(reserved_bytes)
        self._responses.wait_for(outcome, started, reserved_bytes, is_parked=is_parked)


def _is_of_follower(fetch: Any) -> bool:
    replica_id: int = max(fetch.replica_id, fetch.replica_state.replica_id)  # by version one of them is set
    return replica_id >= 0
