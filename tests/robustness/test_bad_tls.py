"""What comes to a port with TLS: strangers are closed with one log line and counted, and everybody else is served meanwhile."""

from __future__ import annotations

import os
import random
import socket
import ssl
import struct
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.certificates import Authority
from protocol.header import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.robustness.process import BrokerProcess, MiB
from tests.robustness.wire import TIMEOUT_S, answers_within_ms

GOOD_MS = 3_000
HANDSHAKE_TIMEOUT_MS = 1_000
SECONDS = 20


class TlsBroker:
    """A broker with the listeners PLAINTEXT, which says whether others are served, and SSL."""

    def __init__(self, folder: Path) -> None:
        authority = Authority.create("robust")
        (folder / "keys.pem").write_text(authority.issue("broker", hosts=("localhost",)).both)
        self.context = ssl.create_default_context(cadata=authority.certificate)
        self.port, self.http_port = lasting_port(), lasting_port()
        self.process = BrokerProcess(folder, {
            "ssl.keystore.type": "PEM", "ssl.keystore.location": folder / "keys.pem",
            "barnabas.authentication.timeout.ms": HANDSHAKE_TIMEOUT_MS, "barnabas.http.port": self.http_port,
        })  # fmt: skip
        self.process.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{self.process.port},SSL://localhost:{self.port}"

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
        made.settimeout(TIMEOUT_S)
        return made

    def closed_lines(self) -> list[str]:
        return [line for line in self.process.log.splitlines() if "connection closed" in line]

    def failures(self) -> int:
        """What the metric says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=TIMEOUT_S) as page:
            lines = page.read().decode().splitlines()
        found = [
            line for line in lines if line.startswith("kafka_server_socket_server_metrics_failed_authentication_total{")
        ]
        return sum(int(float(line.rpartition(" ")[2])) for line in found if 'listener="SSL"' in line)

    def hello(self) -> bytes:
        """The first bytes of a client."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def is_served_over_tls(self) -> bool:
        with self.context.wrap_socket(self.connect(), server_hostname="localhost") as client:
            client.sendall(b"".join(map(bytes, encode_request(ApiVersionsRequest(), 0, 7, "good"))))
            size, correlation_id = struct.unpack(">ii", client.recv(8))
            return size > 8 and correlation_id == 7


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    made = TlsBroker(tmp_path_factory.mktemp("bad-tls"))
    with made.process:
        yield made


def ends(connection: socket.socket) -> bool:
    """Whether the broker closes; alerts may come before."""
    try:
        while connection.recv(4096):
            continue
    except ConnectionResetError:
        return True
    return True


def stops_reading(client: socket.socket, data: bytes) -> bool:
    """Send until the broker takes no more."""
    began = time.monotonic()
    while time.monotonic() - began < TIMEOUT_S:
        try:
            client.sendall(data)
        except TimeoutError:
            return True
    return False


KAFKA_REQUEST = b"".join(map(bytes, encode_request(ApiVersionsRequest(), 0, 1, "plain")))
STRANGERS = {
    "a plain request": (KAFKA_REQUEST, "wrong version number"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "http request"),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", "wrong version number"),
    "SSL 2": (bytes.fromhex("802e0100020015000000100700c0") + bytes(34), "reason=TLS: "),
    "an alert": (bytes.fromhex("15030100020228"), "reason=TLS: "),
    "a record that is too long": (bytes.fromhex("160301ffff") + bytes(20_000), "reason=TLS: "),
    "a hello that is none": (bytes.fromhex("1603010010020000 0c".replace(" ", "")) + bytes(12), "reason=TLS: "),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_strangers(broker: TlsBroker, name: str) -> None:
    data, reason = STRANGERS[name]
    before, failures = len(broker.closed_lines()), broker.failures()
    with broker.connect() as connection:
        connection.sendall(data)
        assert ends(connection)
    assert broker.is_served_over_tls()
    assert answers_within_ms(broker.process) < GOOD_MS
    (line,) = broker.closed_lines()[before:]
    assert "listener=SSL" in line
    assert reason in line
    assert broker.failures() == failures + 1


def test_half_a_handshake_that_stays(broker: TlsBroker) -> None:
    """Many of them: those who say nothing, those who begin, those who send a byte now and then."""
    before = len(broker.closed_lines())
    hello = broker.hello()
    with ExitStack() as stack:
        waiting = [stack.enter_context(broker.connect()) for _ in range(60)]
        for number, connection in enumerate(waiting):
            connection.sendall(hello[: number % 3 * 50])
        assert broker.is_served_over_tls()
        assert answers_within_ms(broker.process) < GOOD_MS
        for connection in waiting:
            assert ends(connection)
    lines = broker.closed_lines()[before:]
    assert len(lines) == 60
    assert all(f"no TLS handshake within {HANDSHAKE_TIMEOUT_MS} ms" in line for line in lines)


def test_rubbish_at_any_moment(broker: TlsBroker) -> None:
    """Mutated handshakes, noise behind half of one: memory is bounded, and everybody else is served."""
    seed = int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    hello = broker.hello()
    for _ in range(300):
        data = bytearray(hello)
        for _ in range(rng.randint(0, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randint(1, len(data))] + rng.randbytes(rng.choice((0, 10, 1_000, 70_000)))
        with broker.connect() as connection:
            try:
                connection.sendall(data)
            except ConnectionError:
                continue  # it was closed at the first bytes
    assert broker.is_served_over_tls(), f"seed {seed}"
    assert answers_within_ms(broker.process) < GOOD_MS, f"seed {seed}"
    assert broker.process.rss_bytes() < 250 * MiB
    assert "Traceback" not in broker.process.log


def test_a_storm_of_handshakes_does_not_hold_up_the_others(broker: TlsBroker) -> None:
    hello = broker.hello()
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(broker.connect()).sendall(hello)
        assert answers_within_ms(broker.process) < GOOD_MS
        assert broker.is_served_over_tls()
    assert wait_until(lambda: answers_within_ms(broker.process) < GOOD_MS, SECONDS)


def test_a_slow_reader_of_large_answers_costs_no_memory(broker: TlsBroker) -> None:
    """Requests without end whose answers nobody takes: reading stops."""
    request = b"".join(map(bytes, encode_request(ApiVersionsRequest(), 0, 7, "greedy")))
    with broker.context.wrap_socket(broker.connect(), server_hostname="localhost") as client:
        client.settimeout(2)
        assert stops_reading(client, request * 1_000)
        assert broker.process.rss_bytes() < 250 * MiB
    assert broker.is_served_over_tls()
