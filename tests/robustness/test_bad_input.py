"""What comes to an open port: each stranger is closed with one log line, and everybody else is served meanwhile."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchResponse
from protocol.messages.metadata import MetadataResponse
from protocol.records.compression import Compression, compress
from protocol.records.record import Record, encode_batch, encode_record
from tests.protocol.records.batches import with_records
from tests.robustness.process import BrokerProcess
from tests.robustness.wire import (
    API_VERSIONS_V,
    FETCH_V,
    METADATA_V,
    PRODUCE_V,
    TIMEOUT_S,
    Wire,
    answers_within_ms,
    batch_of,
    create_topic,
    fetch_of,
    metadata_of,
    produce_of,
)

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(32)
GOOD_MS = 3_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("bad-input")) as running:
        create_topic(running, "t")
        yield running


def api_versions() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="robust", client_software_version="1")


def frame_of(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


STRANGERS = {
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
    "TLS": (TLS_HELLO, "TLS"),
    "negative length": (struct.pack(">i", -1), "-1 bytes"),
    "length 0": (struct.pack(">i", 0), "0 bytes"),
    "length 2 GiB": (struct.pack(">i", 2**31 - 1), "too large"),
    "unknown API": (frame_of(struct.pack(">hhih", 9999, 0, 1, -1)), "API key 9999"),
    "negative API": (frame_of(struct.pack(">hhih", -3, 0, 1, -1)), "API key -3"),
    "version from the future": (frame_of(struct.pack(">hhih", 3, 99, 1, -1)), "Metadata version 99"),
    "noise": (b"\x00\x00\x00\x20" + os.urandom(32), "reason="),
    "cut off message": (frame_of(struct.pack(">hhihb", 3, 9, 1, -1, 0) + b"\xff\xff\xff\xff\x7f"), "malformed"),
    "plain request of 20 MiB": (struct.pack(">ihhih", 20 << 20, 3, 9, 1, -1), "too large"),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", "too large"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_strangers(broker: BrokerProcess, name: str) -> None:
    data, reason = STRANGERS[name]
    before = broker.log.count("connection closed")
    with Wire(broker) as wire:
        wire.socket.sendall(data)
        assert wire.is_closed()
    assert answers_within_ms(broker) < GOOD_MS
    lines = [line for line in broker.log.splitlines() if "connection closed" in line][before:]
    assert len(lines) == 1
    assert reason in lines[0]


def test_names_that_are_no_utf8(broker: BrokerProcess) -> None:
    """Latin-1 in the client id and in a topic's name: the client is answered, on the connection that it has."""
    with Wire(broker) as wire:
        body = struct.pack(">hhih", 3, 1, 7, 3) + b"m\xfcn" + struct.pack(">ih", 1, 4) + b"caf\xe9"
        wire.socket.sendall(frame_of(body))
        response = wire.receive(MetadataResponse, 1)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("caf\N{REPLACEMENT CHARACTER}", ErrorCode.INVALID_TOPIC_EXCEPTION)
        ]
        assert wire.ask(metadata_of("t"), METADATA_V).topics[0].error_code == 0


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_records_that_would_break_their_readers(broker: BrokerProcess, codec: Compression) -> None:
    """A value of 900 bytes in a record of 20: refused, and what others read of the partition is whole."""
    record = encode_record(Record(0, 0, None, b"0123456789"), 0, 0)
    lying = record.replace(b"\x140123", b"\x88\x0e123", 1)
    assert len(lying) == len(record) != 0 and lying != record
    batch = encode_batch([Record(0, 0, None, b"0123456789")], compression=codec)
    with Wire(broker) as wire:
        request = produce_of("t", bytes(with_records(batch, bytes(compress(codec, lying)), 1)))
        (row,) = wire.ask(request, PRODUCE_V).responses[0].partition_responses
        assert row.error_code == ErrorCode.INVALID_RECORD
    assert answers_within_ms(broker) < GOOD_MS


def test_a_request_byte_by_byte(broker: BrokerProcess) -> None:
    with Wire(broker) as wire:
        for byte in wire.frame(produce_of("t", batch_of(b"slow")), PRODUCE_V):
            wire.socket.sendall(bytes([byte]))
        wire.receive_frame()


def test_thousands_of_pipelined_requests(broker: BrokerProcess) -> None:
    with Wire(broker) as wire:
        count = 5_000
        frames = b"".join(wire.frame(metadata_of("t"), METADATA_V) for _ in range(count))
        wire.socket.setblocking(False)
        answered = b""
        sent = 0
        wire.socket.settimeout(TIMEOUT_S)
        while sent < len(frames):  # 64 KiB at a time: the broker stops reading when nobody takes its answers
            sent += wire.socket.send(frames[sent : sent + 4096])
            with contextlib.suppress(BlockingIOError):
                answered += wire.socket.recv(1 << 20, socket.MSG_DONTWAIT)
        answers = 0
        while answers < count:
            while len(answered) >= 4 and len(answered) >= 4 + int.from_bytes(answered[:4], "big"):
                size = 4 + int.from_bytes(answered[:4], "big")
                assert int.from_bytes(answered[4:8], "big") == answers + 1, "out of order"
                answered = answered[size:]
                answers += 1
            if answers < count:
                answered += wire.socket.recv(1 << 16)
    assert answers_within_ms(broker) < GOOD_MS


def send_for_ever(wire: Wire, frame: bytes) -> None:
    while True:
        wire.socket.sendall(frame)


def test_a_client_that_asks_and_never_reads(broker: BrokerProcess) -> None:
    with Wire(broker, receive_buffer_bytes=4096) as wire:
        wire.socket.settimeout(1)
        frame = wire.frame(api_versions(), API_VERSIONS_V) * 100
        with pytest.raises(TimeoutError):  # the broker stops reading
            send_for_ever(wire, frame)
        assert answers_within_ms(broker) < GOOD_MS


def test_a_client_that_stops_sending_but_reads(broker: BrokerProcess) -> None:
    """Half-open: the connection is over, and nothing of it stays."""
    with Wire(broker) as wire:
        wire.send(api_versions(), API_VERSIONS_V)
        assert wire.receive(ApiVersionsResponse, API_VERSIONS_V).error_code == 0
        wire.send(fetch_of("t", 10_000, wait_ms=20_000), FETCH_V)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.is_closed()


def test_connections_that_only_open(broker: BrokerProcess) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(Wire(broker))
        assert answers_within_ms(broker) < GOOD_MS


def test_resets_in_the_middle(broker: BrokerProcess) -> None:
    for cut in (1, 4, 10, 60):
        with Wire(broker) as wire:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.socket.sendall(wire.frame(produce_of("t", batch_of(b"x")), PRODUCE_V)[:cut])
    with Wire(broker) as wire:
        answer = wire.ask(fetch_of("t"), FETCH_V)
        assert isinstance(answer, FetchResponse)
        assert answer.responses[0].partitions[0].error_code == 0
    assert "Traceback" not in broker.log
