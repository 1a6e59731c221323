from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.async_tests import simulated
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork
from tests.simulation.process import PROCESS, Killed, Process


def test_nothing_of_a_killed_process_runs_again() -> None:
    heard: list[str] = []

    async def program(loop: SimLoop) -> None:
        process = Process(loop, "p")

        async def live() -> None:
            loop.call_soon(heard.append, "soon")
            loop.call_later(1, heard.append, "later")
            try:
                await asyncio.sleep(2)
            finally:
                loop.call_soon(heard.append, "finally")

        process.spawn(live(), "main")
        await asyncio.sleep(0.5)
        process.kill()
        process.bury()
        await asyncio.sleep(10)

    simulate(1, program)
    assert heard == ["soon"]


@simulated(1)
async def test_what_a_process_starts_belongs_to_it_and_the_rest_does_not(loop: SimLoop) -> None:
    process = Process(loop, "p")
    seen: list[Process | None] = []

    async def child() -> None:
        seen.append(PROCESS.get())

    async def live() -> None:
        await asyncio.gather(child(), child())

    process.spawn(live(), "main")
    await child()
    await asyncio.sleep(1)
    assert seen == [None, process, process]


def test_other_processes_go_on_while_one_is_killed() -> None:
    async def program(loop: SimLoop) -> list[int]:
        ticks: list[int] = []

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(1)

        one, two = Process(loop, "one"), Process(loop, "two")
        one.spawn(tick(), "tick")
        two.spawn(tick(), "tick")
        await asyncio.sleep(2.5)
        one.kill()
        await asyncio.sleep(2)
        two.kill()
        one.bury()
        two.bury()
        return ticks

    assert len(simulate(1, program)) == 6


@simulated(1)
async def test_a_process_may_be_killed_from_within(loop: SimLoop) -> None:
    process = Process(loop, "p")
    unwound: list[str] = []

    async def live() -> None:
        with contextlib.suppress(Exception):
            process.kill()
            raise Killed
        unwound.append("went on")

    task = process.spawn(live(), "main")
    await asyncio.sleep(1)
    assert not unwound
    assert isinstance(task.exception(), Killed)


@simulated(1)
async def test_names_of_unfinished_tasks_are_told(loop: SimLoop) -> None:
    process = Process(loop, "p")
    process.spawn(asyncio.sleep(5), "long")
    process.spawn(asyncio.sleep(1), "short")
    await asyncio.sleep(2)
    assert process.unfinished() == ["p: long"]
    await asyncio.sleep(5)
    assert process.unfinished() == []


class _Ear:
    def __init__(self, heard: list[Process | None]) -> None:
        self.heard = heard
        self._buffer = memoryview(bytearray(100))

    def connected(self, _connection: object) -> None:
        self.heard.append(PROCESS.get())

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, _count: int) -> None:
        self.heard.append(PROCESS.get())

    def writing_paused(self) -> None:
        pytest.fail("nothing is written")

    def writing_resumed(self) -> None:
        pytest.fail("nothing is written")

    def disconnected(self, _error: Exception | None) -> None:
        self.heard.append(PROCESS.get())


@simulated(1)
async def test_the_network_calls_handlers_in_their_process(loop: SimLoop) -> None:
    network, process = SimNetwork(loop), Process(loop, "server")
    server: list[Process | None] = []
    client: list[Process | None] = []
    with process.entered():
        node = network.node("b")
    await node.listen("b", 9, lambda: _Ear(server))
    connection = await network.node("a").connect("b", 9, _Ear(client))
    connection.write([b"hello"])
    await asyncio.sleep(1)
    connection.close()
    await asyncio.sleep(1)
    assert server == [process] * 3
    assert client == [None, None]
