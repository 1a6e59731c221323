from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from runtime.network.transport import Connection
from tests.async_tests import simulated
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import CONNECT_TIMEOUT_S, HIGH_WATER_BYTES, RESET_AFTER_S, SimNetwork

PORT = 9092


class Ear:
    """A handler that keeps what it hears."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.events: list[str] = []
        self.connection: Connection | None = None
        self._buffer = memoryview(bytearray(700))

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        self.events.append("connected")

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        self.data += self._buffer[:count]

    def writing_paused(self) -> None:
        self.events.append("paused")

    def writing_resumed(self) -> None:
        self.events.append("resumed")

    def disconnected(self, error: Exception | None) -> None:
        self.events.append(type(error).__name__ if error else "closed")


async def pair(network: SimNetwork) -> tuple[Ear, Connection, Ear]:
    """A stream from node a to node b: a's handler and connection, b's handler."""
    a, b = Ear(), Ear()
    await network.node("b").listen("b", PORT, lambda: b)
    connection = await network.node("a").connect("b", PORT, a)
    return a, connection, b


def test_bytes_arrive_whole_and_in_order_however_they_are_cut() -> None:
    async def program(loop: SimLoop) -> None:
        network = SimNetwork(loop)
        a, connection, b = await pair(network)
        sent = bytes(i * 7 % 256 for i in range(300_000))
        for start in range(0, len(sent), 50_000):
            connection.write([sent[start : start + 50_000]])
        connection.close()
        await asyncio.sleep(60)
        assert b.data == sent
        assert a.events[-1] == b.events[-1] == "closed"

    for seed in range(5):
        simulate(seed, program)


@simulated(3)
async def test_a_peer_that_does_not_read_pauses_the_writer(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    a, connection, b = await pair(network)
    assert b.connection is not None
    b.connection.pause_reading()
    connection.write([bytes(2 * HIGH_WATER_BYTES)])
    await asyncio.sleep(10)
    assert a.events == ["connected", "paused"]
    assert connection.unsent_bytes() > 0
    b.connection.resume_reading()
    await asyncio.sleep(10)
    assert a.events == ["connected", "paused", "resumed"]
    assert len(b.data) == 2 * HIGH_WATER_BYTES


@simulated(4)
async def test_a_short_cut_delays_and_a_long_one_breaks(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    a, connection, b = await pair(network)
    network.cut("a", "b", one_way=True)
    connection.write([b"late"])
    await asyncio.sleep(RESET_AFTER_S / 2)
    assert not b.data
    network.heal()
    await asyncio.sleep(1)
    assert b.data == b"late"
    network.cut("a", "b")
    connection.write([b"never"])
    with pytest.raises(TimeoutError):
        await network.node("a").connect("b", PORT, Ear())
    assert loop.time() > CONNECT_TIMEOUT_S
    await asyncio.sleep(RESET_AFTER_S * 2)
    assert a.events[-1] == "TimeoutError"
    assert b.data == b"late"


@simulated(4)
async def test_a_one_way_cut_lets_the_other_way_through(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    a, connection, b = await pair(network)
    network.cut("a", "b", one_way=True)
    assert b.connection is not None
    b.connection.write([b"hello"])
    connection.write([b"hello"])
    await asyncio.sleep(1)
    assert (bytes(a.data), bytes(b.data)) == (b"hello", b"")


@pytest.mark.parametrize("silently", [False, True])
@simulated(5)
async def test_a_crash_ends_the_peer_at_once_or_only_when_it_writes(loop: SimLoop, silently: bool) -> None:
    network = SimNetwork(loop)
    a, connection, b = await pair(network)
    network.crash("b", silently=silently)
    await asyncio.sleep(1)
    assert (a.events[-1] == "ConnectionResetError") != silently
    if silently:
        connection.write([b"anybody there?"])
        await asyncio.sleep(2 * RESET_AFTER_S)
        assert a.events[-1] == "TimeoutError"
    assert b.events == ["connected"]  # a dead process hears nothing
    with pytest.raises(ConnectionRefusedError):
        await network.node("a").connect("b", PORT, Ear())


@simulated(6)
async def test_loss_breaks_streams_on_both_ends(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    a, connection, b = await pair(network)
    network.reset_probability = 1.0
    connection.write([b"x" * 1000])
    await asyncio.sleep(1)
    assert a.events[-1] == b.events[-1] == "ConnectionResetError"
    assert not b.data


@simulated(7)
async def test_a_slow_link_is_slow(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    _, connection, b = await pair(network)
    network.slow("a", "b", 800, 900)
    connection.write([b"x"])
    await asyncio.sleep(0.79)
    assert not b.data
    await asyncio.sleep(0.2)
    assert b.data == b"x"


def test_a_buffer_changed_after_write_is_caught() -> None:
    failures: list[object] = []

    async def program(loop: SimLoop) -> None:
        network = SimNetwork(loop)
        _, connection, _ = await pair(network)
        buffer = bytearray(b"mine no more")
        connection.write([buffer])
        buffer[0] = 0
        await asyncio.sleep(1)
        failures.extend(loop.failures)
        loop.failures.clear()

    simulate(8, program)
    assert failures


def test_same_seed_same_trace() -> None:
    def digest(seed: int) -> str:
        async def program(loop: SimLoop) -> str:
            network = SimNetwork(loop)
            _, connection, b = await pair(network)
            other = await network.node("c").connect("b", PORT, Ear())
            assert b.connection is not None
            for i in range(20):
                connection.write([bytes(i * 100)])
                other.write([bytes(i * 50)])
                await asyncio.sleep(0.001)
            await asyncio.sleep(10)
            return loop.trace.digest()

        return simulate(seed, program)

    run: Callable[[int], str] = digest
    assert run(1) == run(1)
    assert run(1) != run(2)
