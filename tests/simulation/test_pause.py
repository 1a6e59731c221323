"""A paused process: nothing of it runs, the world goes on, and nothing is lost when it runs again."""

from __future__ import annotations

import asyncio

from runtime.network.transport import Address, Connection
from tests.async_tests import simulated
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork
from tests.simulation.process import Process


class Sink:
    """A handler that keeps what it hears, with the time."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._place = bytearray(100)
        self.heard: list[tuple[float, bytes]] = []
        self.lost_s: float | None = None

    def connected(self, connection: Connection) -> None:
        self.connection = connection

    def receive_buffer(self, hint: int) -> memoryview:
        return memoryview(self._place)

    def received(self, count: int) -> None:
        self.heard.append((self._loop.time(), bytes(self._place[:count])))

    def disconnected(self, error: Exception | None) -> None:
        self.lost_s = self._loop.time()

    def writing_paused(self) -> None:
        """Nothing: the sink does not write."""

    def writing_resumed(self) -> None:
        """Nothing: the sink does not write."""


def test_timers_and_tasks_wait_and_come_in_order() -> None:
    async def program(loop: SimLoop) -> list[tuple[str, float]]:
        process = Process(loop, "p")
        happened: list[tuple[str, float]] = []

        def note(what: str) -> None:
            happened.append((what, round(loop.time(), 3)))

        async def live() -> None:
            loop.call_later(2, note, "second timer")
            loop.call_later(1, note, "first timer")
            loop.call_later(9, note, "late timer")
            loop.call_later(1, note, "never").cancel()
            while True:
                await asyncio.sleep(0.4)
                note("tick")

        process.spawn(live(), "main")
        await asyncio.sleep(0.5)
        process.pause()
        process.pause()  # once is enough
        await asyncio.sleep(5)
        process.resume()
        await asyncio.sleep(0.1)
        process.pause()
        await asyncio.sleep(0.1)
        process.kill()
        process.resume()
        process.bury()
        await asyncio.sleep(10)
        return happened

    # The tick's timer is the first one, too, but wakes a task, which takes a turn.
    assert simulate(1, program) == [("tick", 0.4), ("first timer", 5.5), ("second timer", 5.5), ("tick", 5.5)]


def test_a_timer_that_is_cancelled_during_the_pause_stays_cancelled() -> None:
    async def program(loop: SimLoop) -> list[str]:
        process = Process(loop, "p")
        happened: list[str] = []
        with process.entered():
            timer = loop.call_later(1, happened.append, "timer")
            loop.call_later(20, happened.append, "kept")
        process.pause()
        timer.cancel()
        with process.entered():
            loop.call_soon(happened.append, "soon")
            loop.call_later(1, happened.append, "made meanwhile")
        await asyncio.sleep(3)
        assert not happened
        process.resume()
        await asyncio.sleep(30)
        return happened

    assert simulate(1, program) == ["soon", "made meanwhile", "kept"]


@simulated(1)
async def test_bytes_wait_for_a_paused_process_and_connections_are_made_afterwards(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    process = Process(loop, "server")
    sinks: list[Sink] = []

    def make() -> Sink:
        sinks.append(Sink(loop))
        return sinks[-1]

    async def serve() -> None:
        listener = await network.node("server").listen("server", 1, make)
        assert listener.address == Address("server", 1)
        await asyncio.Event().wait()

    process.spawn(serve(), "main")
    await asyncio.sleep(0.1)
    early = Sink(loop)
    connection = await network.node("client").connect("server", 1, early)
    process.pause()
    connection.write([b"hello"])
    late = loop.create_task(network.node("client").connect("server", 1, Sink(loop)))
    await asyncio.sleep(3)
    assert not sinks[0].heard
    assert not late.done()
    connection.close()
    await asyncio.sleep(1)
    process.resume()
    network.resumed("server")
    await asyncio.sleep(1)
    assert b"".join(data for _, data in sinks[0].heard) == b"hello"
    assert sinks[0].lost_s is not None
    assert sinks[0].lost_s > 4
    assert (await late).peer == Address("server", 1)
    assert len(sinks) == 2


@simulated(1)
async def test_one_pair_of_nodes_can_be_mended_alone(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    sink = Sink(loop)
    await network.node("server").listen("server", 1, lambda: sink)
    connection = await network.node("client").connect("server", 1, Sink(loop))
    network.cut("client", "server")
    network.cut("other", "server", one_way=True)
    connection.write([b"hello"])
    await asyncio.sleep(2)
    assert not sink.heard
    network.mend("server", "client")
    await asyncio.sleep(1)
    assert b"".join(data for _, data in sink.heard) == b"hello"
    assert network.link("other", "server").is_cut
