"""Clients, connections and handlers over the simulated network: the real objects, seeded faults, one trace a seed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from broker.network.connections.acceptor import Acceptor
from broker.network.connections.connection_shared import ConnectionLimits, ConnectionShared
from broker.network.dispatch import Dispatch, handles
from broker.network.memory_budget import MemoryBudget
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import Deferred
from broker.network.responses.response_memory import ResponseMemory
from broker.network.routes import DispatchTable
from broker.services import Services
from client.event_loop.connection import OutgoingConnection
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from runtime.tasks import TaskScope
from runtime.timer import Timer
from security.access import NOTHING
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork

PORT = 9092
PRODUCE_V, HEARTBEAT_V = 9, 4


class EchoBroker:
    """Answers a produce with the first four bytes of its records as offset, some at once and some later."""

    def __init__(self, loop: SimLoop, network: SimNetwork) -> None:
        self.taken: list[int] = []
        self.budget = MemoryBudget(300_000)
        timer = Timer(SimClock(loop), loop.call_later)
        self.acceptor = Acceptor(timer)

        @handles(ProduceRequest, NOTHING)
        def produce(request: ProduceRequest, _: RequestContext) -> ProduceResponse | Deferred[ProduceResponse]:
            records = request.topic_data[0].partition_data[0].records
            assert records is not None
            number = int.from_bytes(records[:4], "big")
            assert bytes(records[4:]) == bytes([number % 256]) * (len(records) - 4)
            self.taken.append(number)
            row = PartitionProduceResponse(index=0, error_code=ErrorCode.NONE, base_offset=number)
            response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])
            if loop.random.random() < 0.5:
                return response
            deferred: Deferred[ProduceResponse] = Deferred()
            timer.schedule(loop.random.randint(0, 20), lambda: deferred.complete(response))
            return deferred

        @handles(HeartbeatRequest, NOTHING)
        async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> HeartbeatResponse:
            if loop.random.random() < 0.5:
                await asyncio.sleep(0.01)
            return HeartbeatResponse(error_code=ErrorCode.NONE)

        self.tasks = TaskScope("requests")
        self._shared = ConnectionShared(
            dispatch=Dispatch(DispatchTable([produce, heartbeat]), self.tasks),
            services=cast(Services, SimpleNamespace()),
            budget=self.budget,
            plain_budget=MemoryBudget(self.budget.limit_bytes),
            response_memory=ResponseMemory(MemoryBudget(1 << 20), timer),
            timer=timer,
            call_soon=loop.call_soon,
            limits=ConnectionLimits(max_in_flight=5),
        )
        self.acceptor.serve(self._shared)
        self.acceptor.open()
        self._network = network

    async def start(self) -> None:
        factory = self.acceptor.factory("PLAINTEXT", "PLAINTEXT")
        await self._network.node("broker").listen("broker", PORT, factory)


def produce_of(number: int, size: int) -> ProduceRequest:
    records = number.to_bytes(4, "big") + bytes([number % 256]) * size
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


async def talk(loop: SimLoop, network: SimNetwork, name: int, answered: list[int]) -> None:
    """Send pipelined produces and heartbeats; note the produces that were answered, in order."""
    client = await OutgoingConnection.open(network.node(f"client-{name}"), "broker", PORT, f"client-{name}")

    async def one(number: int) -> None:
        if loop.random.random() < 0.2:
            await client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), HEARTBEAT_V)
            return
        size = loop.random.choice([0, 100, 5_000, 30_000, 150_000])
        response = await client.send(produce_of(number, size), PRODUCE_V, ProduceResponse)
        assert response.responses[0].partition_responses[0].base_offset == number
        answered.append(number)

    results = await asyncio.gather(*(one(name * 1000 + i) for i in range(20)), return_exceptions=True)
    client.close()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, OSError):
            raise result


def history(seed: int, reset_probability: float = 0.0) -> tuple[str, list[int], list[int], int]:
    """(trace, produces the broker took, produces that were answered, bytes still reserved at the end)."""

    async def program(loop: SimLoop) -> tuple[str, list[int], list[int], int]:
        network = SimNetwork(loop)
        broker = EchoBroker(loop, network)
        await broker.start()
        network.reset_probability = reset_probability
        answered: list[int] = []
        await asyncio.gather(
            *(talk(loop, network, name, answered) for name in range(4)), return_exceptions=reset_probability > 0
        )
        await asyncio.sleep(60)
        broker.acceptor.stop()
        await broker.tasks.close()
        assert len(broker.acceptor) == 0
        return loop.trace.digest(), broker.taken, answered, broker.budget.used_bytes

    return simulate(seed, program)


@pytest.mark.parametrize("seed", range(5))
def test_every_request_is_answered_once_and_in_order(seed: int) -> None:
    _, taken, answered, reserved_bytes = history(seed)
    for name in range(4):
        own_taken = [number for number in taken if number // 1000 == name]
        own_answered = [number for number in answered if number // 1000 == name]
        assert own_taken == own_answered == sorted(own_taken)
    assert reserved_bytes == 0


@pytest.mark.parametrize("seed", range(5))
def test_broken_streams_lose_answers_but_no_bytes_of_the_budget(seed: int) -> None:
    _, taken, answered, reserved_bytes = history(seed, reset_probability=0.05)
    assert set(answered) <= set(taken)
    assert reserved_bytes == 0


def test_same_seed_same_trace() -> None:
    assert history(11, 0.02) == history(11, 0.02)
    assert history(11)[0] != history(12)[0]
