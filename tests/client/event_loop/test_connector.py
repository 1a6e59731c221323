"""Connections that log in, and log in again before their session ends, against a scripted broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from client.errors import NotAuthenticated
from client.event_loop.broker_client import BrokerClient
from client.event_loop.connector import Connector, LoginTerms
from client.opening import Login
from protocol.errors import ErrorCode
from protocol.header import decode_request_header, encode_response
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from runtime.network.transport import Address, Connection
from runtime.tls.stream import InPlace
from security.sasl.mechanisms import SaslServer
from security.sasl.plain import PlainClient, PlainServer
from tests.simulation.loop import SimLoop, simulate


class FakeBroker:
    """Answers a login, and then heartbeats, over a network without sockets."""

    def __init__(self, server: Callable[[], SaslServer], *, lifetime_ms: int = 0) -> None:
        self.server_of = server
        self._lifetime_ms = lifetime_ms
        self.mechanisms = ["PLAIN"]
        self.connections: list[FakeLine] = []
        self.is_silent = False
        self.holds_heartbeats = False

    async def listen(self, *_: object) -> Any:
        raise NotImplementedError

    async def connect(self, host: str, port: int, handler: Any) -> Connection:
        line = FakeLine(self, handler, self._lifetime_ms)
        self.connections.append(line)
        handler.connected(line)
        return line


class FakeLine:
    """The `Connection` that a client of the `FakeBroker` has."""

    takes_ranges = False

    def __init__(self, broker: FakeBroker, handler: Any, lifetime_ms: int) -> None:
        self.peer, self.local = Address("broker", 9092), Address("here", 1)
        self._broker, self._handler, self._lifetime_ms = broker, handler, lifetime_ms
        self._server = broker.server_of()
        self.held: list[bytes] = []
        self.is_closed = False
        self.requests: list[str] = []

    def write(self, chunks: Any) -> None:
        frame = b"".join(bytes(chunk) for chunk in chunks)[4:]
        header, position = decode_request_header(frame)
        version, response = header.api_version, None
        if self._broker.is_silent:
            return
        if header.api_key == SaslHandshakeRequest.api_key:
            self.requests.append("login")
            self._server = self._broker.server_of()
            asked = SaslHandshakeRequest.decode(frame, version, position).mechanism
            error = ErrorCode.NONE if asked in self._broker.mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=error, mechanisms=self._broker.mechanisms)
        elif header.api_key == SaslAuthenticateRequest.api_key:
            token = SaslAuthenticateRequest.decode(frame, version, position).auth_bytes
            response = self._answered(token)
        else:
            assert self._server.identity is not None, "a request before the end of the login"
            self.requests.append("heartbeat")
            response = HeartbeatResponse(error_code=ErrorCode.NONE)
        data = b"".join(bytes(chunk) for chunk in encode_response(response, version, header.correlation_id))
        if self._broker.holds_heartbeats and isinstance(response, HeartbeatResponse):
            self.held.append(data)
        else:
            self.deliver(data)

    def _answered(self, token: bytes) -> SaslAuthenticateResponse:
        try:
            answer = self._server.step(token)
        except Exception as error:  # noqa: BLE001  whatever a mechanism says
            message = getattr(error, "client_message", None)
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
            )
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message="", auth_bytes=answer, session_lifetime_ms=self._lifetime_ms
        )

    def deliver(self, data: bytes) -> None:
        def arrive() -> None:
            if not self.is_closed:
                place = self._handler.receive_buffer(-1)
                place[: len(data)] = data
                self._handler.received(len(data))

        asyncio.get_running_loop().call_soon(arrive)

    def unsent_bytes(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._handler.disconnected, None)


def plain_broker(lifetime_ms: int = 0) -> FakeBroker:
    return FakeBroker(lambda: PlainServer({"broker": "topsecret"}), lifetime_ms=lifetime_ms)


def connector_to(broker: FakeBroker, *, password: str = "topsecret", timeout_ms: int = 5_000) -> Connector:
    login = Login("PLAIN", lambda: PlainClient("broker", password))
    return Connector(broker, LoginTerms(login, random.Random(1), InPlace(), timeout_ms))


HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_requests_follow_a_login() -> None:
    async def run(_loop: SimLoop) -> None:
        broker = plain_broker()
        connection = await connector_to(broker).open("broker", 9092, "1")
        assert (await connection.send(HEARTBEAT, 4, HeartbeatResponse)).error_code == ErrorCode.NONE
        await asyncio.sleep(100_000)
        await connection.send(HEARTBEAT, 4)
        assert broker.connections[0].requests == ["login", "heartbeat", "heartbeat"]
        connection.close()

    simulate(1, run)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mechanisms": ["SCRAM-SHA-256"]}, "authentication failed: PLAIN is not enabled, but SCRAM-SHA-256"),
        ({"is_silent": True}, "authentication not finished: timed out"),
    ],
)
def test_a_broker_that_does_not_take_the_login(change: dict[str, Any], reason: str) -> None:
    broker = plain_broker()
    vars(broker).update(change)

    async def run(_loop: SimLoop) -> None:
        with pytest.raises(ConnectionError, match=reason):
            await connector_to(broker).open("broker", 9092, "1")
        assert [line.is_closed for line in broker.connections] == [True]

    simulate(1, run)


def test_a_wrong_password_is_an_error_without_it() -> None:
    async def run(_loop: SimLoop) -> None:
        with pytest.raises(NotAuthenticated) as failed:
            await connector_to(plain_broker(), password="other-secret").open("broker", 9092, "1")
        assert str(failed.value) == (
            "authentication failed: PLAIN: Authentication failed: Invalid username or password"
        )

    simulate(1, run)


def test_a_session_begins_again_before_it_ends_and_after_its_responses() -> None:
    async def run(_loop: SimLoop) -> None:
        broker = plain_broker(lifetime_ms=10_000)
        client = BrokerClient(connector_to(broker), lambda: Address("broker", 9092), "1", timeout_ms=5_000)
        await client.send(HEARTBEAT, 4, HeartbeatResponse)
        await asyncio.sleep(8.4)
        broker.holds_heartbeats = True
        waiting = asyncio.ensure_future(client.send(HEARTBEAT, 4, HeartbeatResponse))
        await asyncio.sleep(1.1)  # 85 % and the spread are over
        behind = [asyncio.ensure_future(client.send(HEARTBEAT, 4, HeartbeatResponse)) for _ in range(2)]
        await asyncio.sleep(0.1)
        line = broker.connections[0]
        assert line.requests == ["login", "heartbeat", "heartbeat"]
        assert not waiting.done()
        broker.holds_heartbeats = False
        line.deliver(line.held.pop())
        await asyncio.gather(waiting, *behind)
        assert line.requests == ["login", "heartbeat", "heartbeat", "login", "heartbeat", "heartbeat"]
        assert len(broker.connections) == 1 and not line.is_closed
        client.close()

    simulate(1, run)


def test_a_session_that_does_not_begin_again_ends_the_connection() -> None:
    async def run(_loop: SimLoop) -> None:
        broker = plain_broker(lifetime_ms=10_000)
        client = BrokerClient(connector_to(broker), lambda: Address("broker", 9092), "1", timeout_ms=5_000)
        await client.send(HEARTBEAT, 4, HeartbeatResponse)
        broker.mechanisms = []
        await asyncio.sleep(9.6)
        with pytest.raises(ConnectionError, match="PLAIN is not enabled"):
            await client.send(HEARTBEAT, 4, HeartbeatResponse)
        assert broker.connections[0].is_closed and not client.is_connected
        broker.mechanisms = ["PLAIN"]
        await client.send(HEARTBEAT, 4, HeartbeatResponse)
        assert broker.connections[1].requests == ["login", "heartbeat"]
        client.close()

    simulate(1, run)
