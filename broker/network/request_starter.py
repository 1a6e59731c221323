"""One connection's requests, from a whole frame to the handler and on to the answer queue.

A frame is decoded and handled the general way, or it is recognised as the repetition of an earlier one and goes the
short way of its API (`broker.network.dispatch.FastPath`).

Rules: sans-IO, like the connection that owns it, which has seen to it that the request may start now.
Invariants: every request that starts reaches the answer queue once, unless its frame is malformed: that closes the
connection with one log line. What a request keeps in memory until its answer is there is counted in the budget.
Source: Kafka SocketServer.Processor.processCompletedReceives, KafkaRequestHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.header_reader import HeaderReader
from broker.network.large_requests import LARGE_REQUEST_BYTES
from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.request_context import ClientConnection, Deferred, RequestContext
from broker.network.response_queue import ResponseOwner, ResponseQueue
from protocol.primitives import DecodeError

if TYPE_CHECKING:
    from broker.network.connection_shared import ConnectionShared
    from broker.network.dispatch import FastPath, Outcome, Route
    from runtime.filesystem import Buffer


class RequestStarter:
    """`client` is set when the connection is made."""

    __slots__ = ("_answers", "_asker", "_in_flight", "_observer", "_read_header", "_shared", "_short_way", "client")

    def __init__(self, shared: ConnectionShared, asker: ResponseOwner, answers: ResponseQueue) -> None:
        self._shared = shared
        self._asker = asker
        self._answers = answers
        self._in_flight = answers.in_flight
        self._observer = shared.dispatch.observer
        self._read_header = HeaderReader().read
        self._short_way: FastPath | None = None  # since the first request of an API that has one
        self.client: ClientConnection | None = None

    def start(self, route: Route, frame: Buffer, correlation_id: int, client_id_bytes: int, held_bytes: int) -> None:
        """Decode a frame and hand it to its handler. `held_bytes` are released with the answer."""
        shared = self._shared
        try:
            client_id, position = self._read_header(route, frame, client_id_bytes)
            # What is left over is ignored, as in Kafka: librdkafka 2.16 ends some Metadata requests with spare bytes.
            limits = shared.limits
            max_elements = limits.max_control_elements if route.is_control else limits.max_elements
            request, _ = route.decode(frame, position, max_elements // route.element_cost)
        except DecodeError as error:
            shared.budget_of(route).release(held_bytes)
            self._asker.close(f"malformed {route.handler.api_name} version {route.version}: {error}")
            return
        observer = self._observer
        stamp = 0 if observer is None else observer.began(route, len(frame))
        assert self.client is not None
        context = RequestContext(route.version, correlation_id, client_id, self.client, shared.services)
        outcome = shared.dispatch.handle(route, request, context)
        if isinstance(outcome, Deferred):
            self._wait_for(outcome, route, len(frame), correlation_id, held_bytes, stamp)
        else:
            self._answers.answer(outcome, route, correlation_id, held_bytes, stamp)
        if route.short_way is not None:
            if self._short_way is None:
                self._short_way = route.short_way()
            self._short_way.learn(route, frame, position, request, context)

    def has_repeated(self, route: Route, frame: bytearray, correlation_id: int) -> bool:
        """Start a request that goes the short way. False, and nothing is done, when it has to go the general one."""
        way = self._short_way
        if way is None or way.route is not route:
            return False
        new = way.recognise(frame)
        if new is None:
            return False
        observer = self._observer
        stamp = 0 if observer is None else observer.began(route, len(frame))
        outcome = self._shared.dispatch.handle_fast(way, frame, new, correlation_id)
        if isinstance(outcome, bytes):
            self._answers.answer_encoded(outcome, route, correlation_id, stamp)
        elif isinstance(outcome, Deferred):
            self._wait_for(outcome, route, len(frame), correlation_id, 0, stamp)
        else:
            self._answers.answer(outcome, route, correlation_id, 0, stamp)
        return True

    def _wait_for(
        self, outcome: Deferred[Outcome], route: Route, size: int, correlation_id: int, held_bytes: int, stamp: int
    ) -> None:
        """The answer comes later."""
        is_parked, shared = False, self._shared
        if not outcome.keeps_request and (held_bytes or route.has_records):
            if held_bytes:
                shared.budget_of(route).release(held_bytes)
            held_bytes, is_parked = LEAST_WAITING_BYTES, True
            shared.parking_of(route).park(held_bytes)
        elif held_bytes:
            pass  # until the answer, or until it is freed
        elif route.has_records:
            held_bytes = max(size, LEAST_WAITING_BYTES)
            shared.budget.reserve_anyway(held_bytes)
        elif self._in_flight or size > LARGE_REQUEST_BYTES:
            held_bytes, is_parked = max(size, LEAST_WAITING_BYTES), True
            shared.plain_budget.park(held_bytes)
        self._answers.wait_for(outcome, route, correlation_id, held_bytes, stamp, is_parked)
