"""The lasting line to a broker: it connects when needed, again after a loss, and gives up a silent connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from client.event_loop.broker_client import BrokerClient
from client.event_loop.connector import Connector
from protocol.frame import FrameReader
from protocol.header import decode_request_header, encode_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address, Connection, ConnectionHandler
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork


class Peer:
    """Answers each ApiVersions v0 while `answers`; counts connections."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.answers = True
        self.requests_count = 0

    def __call__(self) -> PeerStream:
        return PeerStream(self)


class PeerStream:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._frames = FrameReader(4096)

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._peer.connections.append(connection)

    def receive_buffer(self, size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        for frame in self._frames.received(count):
            self._peer.requests_count += 1
            if not self._peer.answers:
                continue
            header, _ = decode_request_header(memoryview(frame))
            response = ApiVersionsResponse(error_code=0, api_keys=[])
            self._connection.write(encode_response(response, 0, header.correlation_id))

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None: ...


def _run(story: Callable[[Peer, BrokerClient], object], *, timeout_ms: int = 5_000) -> None:
    async def main() -> None:
        network, peer = OsNetwork(), Peer()
        listener = await network.listen("127.0.0.1", 0, peer)
        client = BrokerClient(Connector(network), lambda: listener.address, "test", timeout_ms=timeout_ms)
        try:
            await story(peer, client)  # type: ignore[misc]
        finally:
            client.close()
            for connection in peer.connections:
                connection.abort()
            await listener.close()

    asyncio.run(main())


async def _ask(client: BrokerClient) -> ApiVersionsResponse:
    return await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse)


def test_requests_share_one_connection() -> None:
    async def story(peer: Peer, client: BrokerClient) -> None:
        assert not client.is_connected
        await asyncio.gather(_ask(client), _ask(client))
        await _ask(client)
        assert client.is_connected
        assert len(peer.connections) == 1

    _run(story)


def test_a_lost_connection_is_made_anew() -> None:
    async def story(peer: Peer, client: BrokerClient) -> None:
        await _ask(client)
        peer.answers = False
        waiting = asyncio.ensure_future(_ask(client))
        await asyncio.sleep(0)
        peer.connections[0].abort()
        with pytest.raises(ConnectionError):
            await waiting
        peer.answers = True
        await _ask(client)
        assert len(peer.connections) == 2

    _run(story)


def test_an_answer_has_begun_to_come_until_it_is_there_or_the_connection_is_lost() -> None:
    async def story(peer: Peer, client: BrokerClient) -> None:
        assert not client.is_receiving
        await _ask(client)
        assert not client.is_receiving
        peer.answers = False
        waiting = asyncio.ensure_future(_ask(client))
        await asyncio.sleep(0)
        assert not client.is_receiving
        peer.connections[0].write([b"\0\0\0\x20half"])
        while not client.is_receiving:  # noqa: ASYNC110
            await asyncio.sleep(0)
        peer.connections[0].abort()
        with pytest.raises(ConnectionError):
            await waiting
        assert not client.is_receiving

    _run(story)


def test_silence_costs_the_connection() -> None:
    async def story(peer: Peer, client: BrokerClient) -> None:
        peer.answers = False
        with pytest.raises(ConnectionError):
            await _ask(client)
        assert not client.is_connected
        peer.answers = True
        await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_ms=5_000)
        assert len(peer.connections) == 2

    _run(story, timeout_ms=50)


def test_a_request_that_was_given_up_does_not_arrive_later() -> None:
    async def program(loop: SimLoop) -> None:
        network, peer = SimNetwork(loop), Peer()
        listener = await network.node("peer").listen("peer", 9092, peer)
        client = BrokerClient(Connector(network.node("client")), lambda: listener.address, "test", timeout_ms=1_000)
        await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse)
        network.cut("client", "peer")
        with pytest.raises(ConnectionError, match="no answer"):
            await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse)
        network.heal()
        await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse)
        await asyncio.sleep(60)
        assert peer.requests_count == 2
        client.close()

    simulate(1, program)


def test_an_unknown_address_is_an_error_of_the_line() -> None:
    async def story() -> None:
        client = BrokerClient(Connector(OsNetwork()), lambda: None, "test", timeout_ms=1_000)
        with pytest.raises(ConnectionError):
            await _ask(client)

    asyncio.run(story())


def test_a_closed_line_sends_nothing() -> None:
    async def story(peer: Peer, client: BrokerClient) -> None:
        client.close()
        with pytest.raises(ConnectionError):
            await _ask(client)
        assert not peer.connections

    _run(story)


class Nowhere(OsNetwork):
    """No connection comes about, and none is refused: the host is gone."""

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        return await asyncio.get_running_loop().create_future()


def test_closing_ends_a_connection_that_does_not_come_about() -> None:
    async def story() -> None:
        client = BrokerClient(Connector(Nowhere()), lambda: Address("10.255.255.1", 9), "test", timeout_ms=600_000)
        waiting = [asyncio.ensure_future(_ask(client)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        client.close()
        client.close()
        for outcome in await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60):
            assert isinstance(outcome, ConnectionError)
        assert not client.is_connected

    asyncio.run(story())


def test_the_address_is_asked_for_at_each_connection() -> None:
    async def story() -> None:
        network, first, second = OsNetwork(), Peer(), Peer()
        listeners = [await network.listen("127.0.0.1", 0, peer) for peer in (first, second)]
        where: list[Address] = [listeners[0].address]
        client = BrokerClient(Connector(network), lambda: where[0], "test", timeout_ms=5_000)
        await _ask(client)
        where[0] = listeners[1].address
        await _ask(client)
        assert not second.connections, "a line that is open stays"
        first.answers = False
        waiting = asyncio.ensure_future(_ask(client))
        await asyncio.sleep(0)
        first.connections[0].abort()
        with pytest.raises(ConnectionError):
            await waiting
        await _ask(client)
        assert len(second.connections) == 1
        client.close()
        for peer in (first, second):
            for connection in peer.connections:
                connection.abort()
        for listener in listeners:
            await listener.close()

    asyncio.run(story())
