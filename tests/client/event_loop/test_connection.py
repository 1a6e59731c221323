"""The client against a scripted peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from client.event_loop.connection import OutgoingConnection
from protocol.frame import FrameReader
from protocol.header import RequestHeader, decode_request_header, encode_response
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest
from protocol.primitives import Buffer, DecodeError
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address, Connection, ConnectionHandler, Listener, Network
from tests.simulation.loop import SimLoop, simulate

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Wire:
    """Both ends in one: what the client writes is cut into requests, what the peer answers goes back at once."""

    peer = Address("peer", 1)
    local = Address("local", 2)

    def __init__(self, handler: ConnectionHandler) -> None:
        self.handler = handler
        self.headers: list[RequestHeader] = []
        self.closed: str | None = None
        self._frames = FrameReader(1 << 20)

    def write(self, chunks: Sequence[Buffer]) -> None:
        for frame in self._frames.feed(b"".join(chunks)):
            self.headers.append(decode_request_header(frame)[0])

    def answer(self, correlation_id: int, error_code: int = 0, *, step: int = 1 << 20) -> None:
        self.send(b"".join(encode_response(HeartbeatResponse(error_code=error_code), 4, correlation_id)), step)

    def send(self, data: bytes, step: int = 1 << 20) -> None:
        for start in range(0, len(data), step):
            part = data[start : start + step]
            self.handler.receive_buffer(0)[: len(part)] = part
            self.handler.received(len(part))

    def unsent_bytes(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.closed = "closed"
        self.handler.disconnected(None)

    def abort(self) -> None:
        self.closed = "aborted"
        self.handler.disconnected(None)


class OneWire:
    """A network with one peer."""

    def __init__(self) -> None:
        self.wire: Wire

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        raise AssertionError("nobody listens here")

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        self.wire = Wire(handler)
        handler.connected(self.wire)
        return self.wire


async def connected(**options: Any) -> tuple[OutgoingConnection, Wire]:
    network = OneWire()
    typed: Network = network
    return await OutgoingConnection.open(typed, "peer", 1, "me", **options), network.wire


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_pipelined_requests_get_their_answers() -> None:
    async def scenario() -> None:
        client, wire = await connected()
        sends = [asyncio.ensure_future(client.send(REQUEST, 4, HeartbeatResponse)) for _ in range(3)]
        await settle()
        assert [(header.api_key, header.correlation_id, header.client_id) for header in wire.headers] == [
            (12, 0, "me"), (12, 1, "me"), (12, 2, "me"),
        ]  # fmt: skip
        for correlation_id in range(3):
            wire.answer(correlation_id, 20 + correlation_id, step=3)
        assert [answer.error_code for answer in await asyncio.gather(*sends)] == [20, 21, 22]
        assert client.is_open
        client.close()
        assert wire.closed == "closed" and not client.is_open

    asyncio.run(scenario())


def test_lost_connection_fails_what_waits() -> None:
    async def scenario() -> None:
        client, wire = await connected()
        sends = [asyncio.ensure_future(client.send(REQUEST, 4)) for _ in range(2)]
        await settle()
        wire.handler.disconnected(ConnectionResetError("reset"))
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(result, ConnectionResetError) for result in results)
        with pytest.raises(ConnectionError):
            await client.send(REQUEST, 4)

    asyncio.run(scenario())


def test_close_fails_what_waits() -> None:
    async def scenario() -> None:
        client, _ = await connected()
        send = asyncio.ensure_future(client.send(REQUEST, 4))
        await settle()
        client.close()
        with pytest.raises(ConnectionError, match="closed"):
            await send

    asyncio.run(scenario())


@pytest.mark.parametrize("wrong", ["order", "short", "unasked", "huge"])
def test_malformed_answers_close_the_connection(wrong: str) -> None:
    async def scenario() -> None:
        client, wire = await connected(max_frame_bytes=1000)
        send = asyncio.ensure_future(client.send(REQUEST, 4))
        await settle()
        if wrong == "order":
            wire.answer(5)
        elif wrong == "short":
            wire.send(b"\x00\x00\x00\x05\x00\x00\x00\x00\x00")
        elif wrong == "huge":
            wire.send(b"\x00\x00\x10\x00")
        else:
            wire.answer(0)
            assert (await send).encode(4)
            wire.answer(1)
        assert wire.closed == "aborted" and not client.is_open
        if wrong != "unasked":
            with pytest.raises(DecodeError):
                await send

    asyncio.run(scenario())


def test_a_cancelled_send_drops_its_answer_and_no_other() -> None:
    async def scenario() -> None:
        client, wire = await connected()
        first, second = (asyncio.ensure_future(client.send(REQUEST, 4, HeartbeatResponse)) for _ in range(2))
        await settle()
        first.cancel()
        await settle()
        wire.answer(0, 1)
        wire.answer(1, 2)
        assert (await second).error_code == 2

    asyncio.run(scenario())


def test_requests_in_flight_are_bounded() -> None:
    async def scenario() -> None:
        client, wire = await connected(max_in_flight=2)
        sends = [asyncio.ensure_future(client.send(REQUEST, 4)) for _ in range(4)]
        await settle()
        assert len(wire.headers) == 2
        sends[0].cancel()  # its answer is still owed, so its place is not free
        await settle()
        assert len(wire.headers) == 2
        wire.answer(0)
        await settle()
        assert len(wire.headers) == 3
        wire.answer(1)
        await settle()
        wire.answer(2)
        wire.answer(3)
        await asyncio.gather(*sends[1:])

    asyncio.run(scenario())


def test_produce_without_acks_has_no_answer() -> None:
    async def scenario() -> None:
        client, wire = await connected()
        client.send_unanswered(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9)
        send = asyncio.ensure_future(client.send(REQUEST, 4))
        await settle()
        wire.answer(1)
        await send

    asyncio.run(scenario())


class Answering:
    """A server's end: answers every heartbeat with its generation as the error code."""

    def __init__(self) -> None:
        self._frames = FrameReader(1 << 20)
        self._connection: Connection

    def connected(self, connection: Connection) -> None:
        self._connection = connection

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        for frame in self._frames.received(count):
            header, position = decode_request_header(frame)
            request = HeartbeatRequest.decode(frame, header.api_version, position)
            response = HeartbeatResponse(error_code=request.generation_id)
            self._connection.write(encode_response(response, header.api_version, header.correlation_id))

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def disconnected(self, _error: Exception | None) -> None: ...


def test_over_sockets() -> None:
    async def scenario() -> None:
        network = OsNetwork()
        listener = await network.listen("127.0.0.1", 0, Answering)
        client = await OutgoingConnection.open(network, "127.0.0.1", listener.address.port)
        requests = [HeartbeatRequest(group_id="g" * 3000, generation_id=n, member_id="m") for n in range(300)]
        answers = await asyncio.gather(*(client.send(request, 3, HeartbeatResponse) for request in requests))
        assert [answer.error_code for answer in answers] == list(range(300))
        client.close()
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await OutgoingConnection.open(network, "127.0.0.1", listener.address.port)

    asyncio.run(scenario())


def test_a_broker_that_throttles_gets_no_request_for_that_time_and_then_all_in_order() -> None:
    async def program(loop: SimLoop) -> None:
        client, wire = await connected()
        first = asyncio.ensure_future(client.send(REQUEST, 4))
        await settle()
        wire.send(b"".join(encode_response(HeartbeatResponse(error_code=0, throttle_time_ms=700), 4, 0)))
        await first
        since_s = loop.time()
        sends = [asyncio.ensure_future(client.send(REQUEST, 4)) for _ in range(3)]
        await asyncio.sleep(0.6)
        assert len(wire.headers) == 1
        await asyncio.sleep(0.2)
        assert [header.correlation_id for header in wire.headers] == [0, 1, 2, 3]
        for correlation_id in (1, 2, 3):
            wire.answer(correlation_id)
        await asyncio.gather(*sends)
        late = asyncio.ensure_future(client.send(REQUEST, 4))
        await settle()
        assert len(wire.headers) == 5 and loop.time() - since_s < 1
        client.close()
        with pytest.raises(ConnectionError):
            await late

    simulate(1, program)
