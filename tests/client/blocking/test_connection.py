"""A connection against scripted peers, over sockets: what is no broker, or no longer answers as one, ends it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.blocking import connection as module
from client.blocking.connection import BrokerConnection
from client.blocking.names import SocketAddress
from client.opening import LARGEST_RESPONSE_BYTES
from client.settings.values import ClientSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.header import decode_request_header, encode_response
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
VERSIONS = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=12, min_version=0, max_version=4)])
Peer = Callable[[socket.socket], None]


def frame_of(connection: socket.socket) -> bytes:
    """The next request, empty when the other side has closed."""
    length = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(struct.unpack(">i", length)[0], socket.MSG_WAITALL) if len(length) == 4 else b""


def respond(connection: socket.socket, response: Any, version: int, *, off_by: int = 0) -> None:
    header, _ = decode_request_header(frame_of(connection))
    connection.sendall(b"".join(encode_response(response, version, header.correlation_id + off_by)))


def broker(then: Peer) -> Peer:
    """What begins as a broker does."""

    def peer(connection: socket.socket) -> None:
        respond(connection, VERSIONS, 3)
        then(connection)

    return peer


def reads(then: Peer) -> Peer:
    """What reads one request before it does something."""

    def peer(connection: socket.socket) -> None:
        assert frame_of(connection)
        then(connection)

    return peer


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def silent(connection: socket.socket) -> None:
    assert connection.recv(1) == b"", "until the other side has closed"


def sends(data: bytes) -> Peer:
    def peer(connection: socket.socket) -> None:
        connection.sendall(data)
        connection.recv(1)

    return peer


@contextmanager
def listening(*peers: Peer) -> Iterator[int]:
    """A port where one connection after the other meets these peers."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for peer in peers:
                connection, _ = server.accept()
                with connection:
                    peer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join()


def opened(port: int, *, timeout_ms: int = 10_000, **arguments: Any) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", port, ClientSettings((), request_timeout_ms=timeout_ms), **arguments)


NO_BROKER = "no broker, or a listener with another protocol"


@pytest.mark.parametrize(
    ("peer", "problem"),
    [
        (sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"), NO_BROKER),
        (sends(struct.pack(">i", LARGEST_RESPONSE_BYTES + 1)), NO_BROKER),
        (sends(struct.pack(">i", -1)), NO_BROKER),
        (sends(struct.pack(">ii", 4, 77)), NO_BROKER),
        (reads(lambda connection: None), "the broker closed the connection"),
        (reads(reset), "Connection reset by peer"),
        (silent, "no response within 0.05 s"),
    ],
)
def test_what_is_no_broker_is_refused(peer: Peer, problem: str) -> None:
    quiet = peer is silent

    def until_closed(connection: socket.socket) -> None:
        if quiet:
            frame_of(connection)
        peer(connection)

    with listening(until_closed) as port, pytest.raises(ConnectionError, match=rf"127\.0\.0\.1:{port}: {problem}"):
        opened(port, first_s=0.05 if quiet else None)


@pytest.mark.parametrize(
    ("then", "problem"),
    [
        (
            lambda peer: respond(peer, HeartbeatResponse(error_code=0), 4, off_by=1),
            "a malformed response: response 2 came",
        ),
        (reads(sends(struct.pack(">ii", 5, 1) + b"?")), "a malformed response"),
        (reads(sends(struct.pack(">i", 3))), NO_BROKER),
        (reads(sends(struct.pack(">ii", 1 << 20, 1))), "no response within 0.05 s"),
        (reads(sends(struct.pack(">ii", (1 << 31) - 1, 1))), "no response within 0.05 s"),
        (reads(silent), "no response within 0.05 s"),
        (reads(reset), "Connection reset by peer"),
        (reads(lambda peer: peer.sendall(b"\0\0")), "the broker closed the connection"),
    ],
)
def test_a_broker_that_does_not_answer_as_one_is_lost(then: Peer, problem: str) -> None:
    """A frame may be as long as a fetch; that it is announced costs no memory before it comes."""
    with listening(broker(then)) as port:
        made = opened(port)
        is_timed = problem.startswith("no response")
        with pytest.raises(ConnectionError, match=problem):
            made.ask(REQUEST, HeartbeatResponse, 0.05 if is_timed else None)
        assert not made.is_usable


def test_a_request_that_the_broker_does_not_know_is_not_sent() -> None:
    with listening(broker(silent)) as port:
        made = opened(port)
        with pytest.raises(KafkaError, match="speaks SaslHandshake not, this client in 0 to 1") as raised:
            made.ask(SaslHandshakeRequest(mechanism="PLAIN"), HeartbeatResponse)
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert made.is_usable
        made.close()


def test_a_request_with_what_the_version_of_an_old_broker_lacks_is_not_sent() -> None:
    old = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=12, min_version=0, max_version=2)])
    static = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="static")

    def old_broker(connection: socket.socket) -> None:
        respond(connection, old, 3)
        silent(connection)

    with listening(old_broker) as port:
        made = opened(port)
        with pytest.raises(KafkaError, match="is too old for this request: ") as raised:
            made.ask(static, HeartbeatResponse)
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        made.close()


def test_a_connection_that_the_broker_closed_is_not_used_again() -> None:
    closed = threading.Event()

    def peer(connection: socket.socket) -> None:
        connection.close()
        closed.set()

    with listening(broker(peer)) as port:
        made = opened(port)
        assert closed.wait(10)
        assert not made.is_usable
        made.close()


def test_another_thread_ends_a_wait() -> None:
    with listening(broker(reads(silent))) as port:
        made = opened(port)
        made.send(REQUEST)
        threading.Thread(target=made.abort).start()
        with pytest.raises(ConnectionError, match="the broker closed the connection"):
            made.receive(HeartbeatResponse)


def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused, listening(sends(b"SSH-2.0-x\r\n"), broker(silent)) as port:
        unused.bind(("127.0.0.1", 0))
        ports = unused.getsockname()[1], port, port
        places = [SocketAddress(socket.AF_INET, ("127.0.0.1", each)) for each in ports]
        monkeypatch.setattr(module, "resolved", lambda *_: places)
        made = BrokerConnection("broker", 1, ClientSettings(()))
        assert made.version_of(HeartbeatRequest) == 4
        made.close()


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(ConnectionError, match=r"the name no\.such\.host\.invalid does not resolve"):
        BrokerConnection("no.such.host.invalid", 1, ClientSettings(()))


def test_a_request_waits_while_the_broker_throttles() -> None:
    slept: list[float] = []

    def then(connection: socket.socket) -> None:
        for throttle_ms in (3_000, 0):
            respond(connection, HeartbeatResponse(throttle_time_ms=throttle_ms, error_code=0), 4)
        silent(connection)

    with listening(broker(then)) as port:
        made = opened(port, clock=lambda: sum(slept), sleep=slept.append)
        made.ask(REQUEST, HeartbeatResponse)
        with pytest.raises(ConnectionError, match=r"throttles this client, for another 3\.0 s"):
            made.ask(REQUEST, HeartbeatResponse, 2.0)
        made.ask(REQUEST, HeartbeatResponse)
        assert slept == [3.0]
        made.close()
