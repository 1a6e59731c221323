"""TLS between simulated machines: the streams of real brokers, over the network that delays, cuts and breaks."""

from __future__ import annotations

import asyncio

from runtime.tls.context import client_context_of, server_context
from runtime.tls.network import TlsNetwork
from runtime.tls.stream import TlsStream, TlsWork
from tests.async_tests import simulated
from tests.simulation.loop import SimLoop
from tests.simulation.network import RESET_AFTER_S, SimNetwork
from tests.simulation.test_network import PORT, Ear
from tests.tls_certificates import REQUIRED, material


def accept(ear: Ear) -> TlsStream:
    context = server_context(material("broker", "b"), REQUIRED)
    return TlsStream(ear, context, TlsWork(), is_announced_early=True, secured=lambda _stream: None)


@simulated(1)
async def test_bytes_arrive_whole_and_in_order_both_ways(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    a, b = Ear(), Ear()
    await network.node("b").listen("b", PORT, lambda: accept(b))
    client = TlsNetwork(network.node("a"), client_context_of(material("a"), checks_host=True))
    connection = await client.connect("b", PORT, a)
    sent = loop.random.randbytes(300_000)
    for start in range(0, len(sent), 50_000):
        connection.write([sent[start : start + 100], sent[start + 100 : start + 50_000]])
    await asyncio.sleep(30)
    assert a.events[0] == "connected"
    assert bytes(b.data) == sent
    assert b.connection is not None
    b.connection.write([sent[:150_000]])
    b.connection.close()
    await asyncio.sleep(30)
    assert bytes(a.data) == sent[:150_000]
    assert (a.events[-1], b.events[-1]) == ("closed", "closed")


@simulated(2)
async def test_a_cut_in_the_middle_of_a_handshake_ends_both_sides(loop: SimLoop) -> None:
    network = SimNetwork(loop)
    a, b = Ear(), Ear()
    await network.node("b").listen("b", PORT, lambda: accept(b))
    client = TlsNetwork(network.node("a"), client_context_of(material("a"), checks_host=True))
    await client.connect("b", PORT, a)
    network.cut("b", "a")
    await asyncio.sleep(3 * RESET_AFTER_S)
    assert "connected" not in a.events
    assert a.events == ["TimeoutError"]
