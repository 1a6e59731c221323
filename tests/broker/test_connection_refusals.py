"""Connections: who is closed, with which line, and that nothing is held for him."""

from __future__ import annotations

import logging

import pytest

from broker.network.connections.connection_shared import ConnectionLimits
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from security.access import NOTHING
from tests.broker.harness import Broker, Peer
from tests.broker.recorded_requests import HEARTBEAT_V, Log, V, heartbeat_of, produce_of


@pytest.fixture
def log() -> Log:
    return Log()


def closed_with(caplog: pytest.LogCaptureFixture, peer: Peer) -> str:
    assert peer.stream.is_closed
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "address=10.1.1.1:5555 listener=PLAINTEXT" in lines[0]
    return lines[0]


UNKNOWN_API = b"\0\0\0\x10\x03\xe7\0\0\0\0\0\1\0\1x\0\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (b"POST", "HTTP"),
        (bytes.fromhex("16030100c8010000c40303aabbcc"), "TLS handshake came to a PLAINTEXT listener"),
        (bytes.fromhex("160303ff"), "TLS"),
        ((200 << 20).to_bytes(4, "big") + bytes(10), "209715200 bytes"),
        (b"\xff\xff\xff\xff" + bytes(10), "-1 bytes"),
        (bytes(14), "0 bytes"),
        (bytes(4), "0 bytes"),
        (UNKNOWN_API, "API key 999 version 0 is not served"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [1, 1000])
def test_strangers_are_closed_with_one_line(
    log: Log, caplog: pytest.LogCaptureFixture, data: bytes, reason: str, piece_bytes: int
) -> None:
    peer = Broker(log.handlers).connect()
    with caplog.at_level(logging.INFO):
        peer.send_bytes(data + bytes(100), piece_bytes)
    assert reason in closed_with(caplog, peer)
    assert log.started == []


def test_a_version_that_is_not_served_closes(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    peer = Broker(log.handlers).connect()
    peer.send_bytes(b"\0\0\0\x10\0\x0c\0\x63\0\0\0\1\0\1x\0\0\0\0\0")
    assert "Heartbeat version 99 is not served" in closed_with(caplog, peer)


@pytest.mark.parametrize("records_bytes", [100, 100_000])
def test_malformed_requests_close_and_hold_nothing(
    log: Log, caplog: pytest.LogCaptureFixture, records_bytes: int
) -> None:
    broker = Broker(log.handlers)
    peer = broker.connect()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    frame = bytearray(peer.frame(produce_of(b"x" * records_bytes), V))
    frame[30:34] = b"\xff\xff\xff\xff"
    peer.send_bytes(bytes(frame))
    peer.send_bytes(bytes(100))
    assert "malformed Produce version 9" in closed_with(caplog, peer)
    assert len(peer.answers()) == 1  # the one before it
    assert broker.budget.used_bytes == 0


def test_spare_bytes_behind_a_request_are_ignored(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    peer.expect(heartbeat_of("g"), HEARTBEAT_V)
    frame = peer.frame(heartbeat_of("g"), HEARTBEAT_V)
    peer.send_bytes((len(frame) - 4 + 3).to_bytes(4, "big") + frame[4:] + b"abc")
    peer.send(heartbeat_of("h"), HEARTBEAT_V)
    assert len(peer.answers()) == 2


def test_only_records_may_be_large(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(max_frame_bytes=50_000, max_plain_bytes=2_000)
    broker = Broker(log.handlers, limits=limits)
    producer, member = broker.connect(), broker.connect()
    producer.send(produce_of(b"x" * 40_000), V)
    assert len(producer.answers()) == 1
    member.send(heartbeat_of("g" * 3_000), HEARTBEAT_V)
    assert "malformed or too large" in closed_with(caplog, member)


def test_a_handler_may_close_the_connection_after_earlier_answers(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    peer = Broker(log.handlers).connect()
    peer.send_bytes(b"")
    first, second, third = heartbeat_of("g"), heartbeat_of("close"), heartbeat_of("never")
    peer.expect(first, HEARTBEAT_V)
    peer.send_bytes(b"".join(peer.frame(one, HEARTBEAT_V) for one in (first, second, third)))
    assert "the group wants it" in closed_with(caplog, peer)
    assert len(peer.answers()) == 1
    assert log.started == ["heartbeat g", "heartbeat close"]


def test_an_answer_that_cannot_be_encoded_closes(caplog: pytest.LogCaptureFixture) -> None:
    @handles(HeartbeatRequest, NOTHING)
    async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> HeartbeatResponse:
        return HeartbeatResponse(error_code="none")  # type: ignore[arg-type]

    peer = Broker([heartbeat]).connect()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    assert peer.stream.is_closed
    assert "response not encoded" in caplog.text
