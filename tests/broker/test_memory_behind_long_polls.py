"""One connection that asks for something large behind a request that waits: others do not wait for that memory."""

from __future__ import annotations

from typing import Any

import pytest

from broker.network.connections.connection_shared import ConnectionLimits
from broker.network.dispatch import handles
from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import Deferred
from protocol.messages.fetch import FetchRequest, FetchResponse
from security.access import NOTHING
from tests.broker.harness import Broker, settle
from tests.broker.recorded_requests import BARRIER_MS, HEARTBEAT_V, Log, V, heartbeat_of, produce_of

LIMIT = 1 << 20
FETCH_V = 11
FETCH = FetchRequest(replica_id=-1, max_wait_ms=2**31 - 1, min_bytes=1, topics=[])


class World:
    """Fetch waits until it is let go."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self.log = Log()
        self.waiting: list[Deferred[Any]] = []

        @handles(FetchRequest, NOTHING)
        def fetch(request: FetchRequest, context: RequestContext) -> Deferred[FetchResponse]:
            self.waiting.append(Deferred())
            return self.waiting[-1]

        self.broker = Broker([*self.log.handlers, fetch], budget_bytes=LIMIT, limits=limits)
        self.peer, self.other = self.broker.connect(), self.broker.connect()

    def others_go_on(self) -> bool:
        self.other.send(produce_of(b"o" * (LIMIT - 1000)), V)
        return len(self.other.answers()) == 1

    def let_go(self) -> None:
        request = FetchResponse(error_code=0, session_id=0, responses=[])
        self.waiting.pop(0).complete(request)
        self.peer.go_on()


@pytest.mark.parametrize("size", [LIMIT // 2, 2 * LIMIT])
def test_a_produce_that_is_answered_behind_a_fetch_that_waits(size: int) -> None:
    world = World()
    world.peer.send(FETCH, FETCH_V)
    for _ in range(3):
        world.peer.send(produce_of(b"x" * size), V)
    assert len(world.log.started) == 3
    assert world.broker.budget.used_bytes == 0
    assert world.broker.budget.parked_bytes == 3 * LEAST_WAITING_BYTES
    assert world.others_go_on()
    world.let_go()
    assert len(world.peer.answers()) == 4
    assert world.broker.budget.parked_bytes == 0


def test_a_produce_that_was_a_barrier_behind_a_fetch_that_waits() -> None:
    world = World()
    world.peer.send(FETCH, FETCH_V)
    world.peer.send(produce_of(b"x" * (LIMIT // 2), timeout_ms=BARRIER_MS), V)
    world.peer.send(produce_of(b"x" * (LIMIT // 2)), V)
    assert len(world.log.started) == 1
    world.log.finish(0)
    world.peer.go_on()
    assert len(world.log.started) == 2
    assert world.others_go_on()


async def test_a_large_produce_behind_a_request_that_nothing_overtakes_is_not_received_yet() -> None:
    world = World()
    world.peer.send(heartbeat_of("wait"), HEARTBEAT_V)
    await settle()
    world.peer.send(produce_of(b"x" * LIMIT), V)
    assert world.broker.budget.used_bytes == 0
    assert not world.peer.stream.is_reading
    assert world.others_go_on()
    world.log.gate.set_result(None)
    await settle()
    world.peer.go_on()
    assert len(world.peer.answers()) == 2


async def test_a_large_request_without_records_behind_a_fetch_that_waits_is_not_received_yet() -> None:
    world = World()
    world.peer.send(FETCH, FETCH_V)
    request = heartbeat_of("g" * 30_000)
    world.peer.expect(request, HEARTBEAT_V)
    world.peer.send_bytes(world.peer.frame(request, HEARTBEAT_V), piece_bytes=10_000)
    assert (len(world.log.started), world.broker.budget.used_bytes) == (0, 0)
    world.let_go()
    for _ in range(3):
        await settle()
        world.peer.go_on()
    assert len(world.peer.answers()) == 2


def test_a_large_produce_behind_as_many_as_may_be_in_flight_is_not_received_yet() -> None:
    world = World(ConnectionLimits(max_in_flight=2))
    for _ in range(2):
        world.peer.send(FETCH, FETCH_V)
    world.peer.send(produce_of(b"x" * LIMIT), V)
    assert world.broker.budget.used_bytes == 0
    world.let_go()
    assert len(world.log.started) == 1
