"""TLS streams, both sides in memory: bytes in order, work that is done elsewhere, pauses, ends, what is no TLS."""

from __future__ import annotations

import random
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.disk.filesystem import Buffer
from runtime.network.transport import Address
from runtime.tls.context import client_context_of, server_context
from runtime.tls.stream import LARGE_WRITE_BYTES, PIECE_BYTES, SLICE_BYTES, TlsStream, TlsWork, reason_of_failure
from tests.tls_certificates import NOT_ASKED, REQUIRED, material


class Later:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = deque()
        self.is_busy = False

    def start(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((job, done))

    def do_one(self) -> bool:
        if not self.jobs:
            return False
        job, done = self.jobs.popleft()
        try:
            result = job()
        except ssl.SSLError as error:
            done(None, error)
        else:
            done(result, None)
        return True


class Line:
    """One end of a plain connection: what it writes waits until the test carries it to the other one."""

    def __init__(self) -> None:
        self.peer, self.local = Address("10.0.0.1", 1), Address("10.0.0.2", 2)
        self.stream: TlsStream | None = None
        self.written = bytearray()
        self.longest_chunk = 0
        self.is_reading = True
        self.is_closed = self.is_aborted = False

    def write(self, chunks: Sequence[Buffer]) -> None:
        assert not self.is_closed
        self.longest_chunk = max(self.longest_chunk, *map(len, chunks))
        self.written += b"".join(chunks)

    def unsent_bytes(self) -> int:
        return len(self.written)

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def give(self, data: bytes) -> None:
        """Receive, as a transport does: at most one buffer at a time."""
        assert self.stream is not None
        while data:
            place = self.stream.receive_buffer(len(data))
            count = min(len(data), len(place))
            place[:count] = data[:count]
            data = data[count:]
            self.stream.received(count)


class User:
    """The handler of a TLS stream, which keeps what it is told."""

    def __init__(self, buffer_bytes: int = 5_000) -> None:
        self.data = bytearray()
        self.events: list[str] = []
        self.error: Exception | None = None
        self._buffer = memoryview(bytearray(buffer_bytes))

    def connected(self, _connection: object) -> None:
        self.events.append("connected")

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        assert 0 < count <= len(self._buffer)
        self.data += self._buffer[:count]

    def writing_paused(self) -> None:
        self.events.append("paused")

    def writing_resumed(self) -> None:
        self.events.append("resumed")

    def disconnected(self, error: Exception | None) -> None:
        self.error = error
        self.events.append("disconnected")


class Pair:
    """A server and a client, connected. `server_work` and `client_work` are theirs; both do them at once by default."""

    def __init__(
        self,
        server: ssl.SSLContext | None = None,
        client: ssl.SSLContext | None = None,
        *,
        host: str = "localhost",
        server_work: TlsWork | None = None,
        client_work: TlsWork | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self.failures: list[Exception] = []
        self.users, self.lines = (User(), User()), (Line(), Line())
        self.is_secured = [False, False]
        self.server = TlsStream(
            self.users[0], server or server_context(material("broker", "localhost"), NOT_ASKED),
            server_work or TlsWork(), is_announced_early=True,
            secured=lambda _stream: self._secured(0), failed=self.failures.append,
            ended=lambda: self.users[0].events.append("ended"),
        )  # fmt: skip
        self.client = TlsStream(
            self.users[1], client or client_context_of(material(None), checks_host=True), client_work or TlsWork(),
            host=host, secured=lambda _stream: self._secured(1),
        )  # fmt: skip
        if session is not None:
            self.client._tls.session = session
        for line, stream in zip(self.lines, (self.server, self.client), strict=True):
            line.stream = stream
            stream.connected(line)

    def _secured(self, side: int) -> None:
        self.is_secured[side] = True

    def carry(self, rng: random.Random | None = None) -> bool:
        """Carry what was written to the other side, in pieces by chance with `rng`. Returns whether there was anything."""
        was_anything = False
        for line, other in (self.lines, self.lines[::-1]):
            if line.written and other.is_reading and not other.is_closed:
                count = len(line.written) if rng is None else rng.randint(1, min(len(line.written), 100_000))
                data = bytes(line.written[:count])
                del line.written[:count]
                other.give(data)
                was_anything = True
        return was_anything

    def settle(self) -> None:
        while self.carry():
            continue


def test_both_sides_are_secured_and_say_how() -> None:
    pair = Pair()
    assert pair.users[0].events == ["connected"]
    pair.settle()
    assert pair.is_secured == [True, True]
    assert (pair.server.version, pair.client.version) == ("TLSv1.3", "TLSv1.3")
    assert pair.server.cipher == pair.client.cipher == "TLS_AES_256_GCM_SHA384"
    assert pair.server.certificate is None
    assert pair.client.certificate is not None


@pytest.mark.parametrize("versions", [("TLSv1.2",), ("TLSv1.3",)])
def test_the_server_sees_the_clients_certificate(versions: tuple[str, ...]) -> None:
    server = server_context(material("broker", "localhost", versions=versions), REQUIRED)
    pair = Pair(server, client_context_of(material("alice"), checks_host=True))
    pair.settle()
    assert pair.is_secured == [True, True]
    assert pair.server.certificate is not None
    assert (pair.server.version,) == versions


@pytest.mark.parametrize("seed", range(12))
def test_bytes_arrive_whole_and_in_order_whatever_is_slow(seed: int) -> None:
    """Handshakes and encryption are done some time, reading pauses and goes on, peers take bytes when they do."""
    rng = random.Random(seed)
    works = [Later() for _ in range(4)]
    versions = (rng.choice(("TLSv1.2", "TLSv1.3")),)
    pair = Pair(
        server_context(material("broker", "localhost", versions=versions), REQUIRED),
        client_context_of(material("alice"), checks_host=True),
        server_work=TlsWork(works[0], works[1]), client_work=TlsWork(works[2], works[3]),
    )  # fmt: skip
    sent = (bytearray(), bytearray())
    streams = (pair.server, pair.client)
    paused = [False, False]
    for turn in range(400):
        side = rng.randrange(2)
        match rng.randrange(7):
            case 0 if turn < 200 and (side or pair.is_secured[0]):
                sizes = [
                    rng.choice((1, 100, 20_000, LARGE_WRITE_BYTES, PIECE_BYTES + 7)) for _ in range(rng.randint(1, 3))
                ]
                chunks = [rng.randbytes(size) for size in sizes]
                sent[side].extend(b"".join(chunks))
                streams[side].write(chunks)
            case 1:
                paused[side] = not paused[side]
                (streams[side].pause_reading if paused[side] else streams[side].resume_reading)()
            case 2:
                streams[side].writing_paused()
                streams[side].writing_resumed()
            case 3 | 4:
                works[rng.randrange(4)].do_one()
            case _:
                pair.carry(rng)
    for stream, is_paused in zip(streams, paused, strict=True):
        if is_paused:
            stream.resume_reading()
    while pair.carry() or any(work.do_one() for work in works):
        continue
    assert pair.is_secured == [True, True]
    assert pair.users[0].data == sent[1]
    assert pair.users[1].data == sent[0]
    assert all(stream.unsent_bytes() == 0 for stream in streams)
    for user in pair.users:
        paces = [event for event in user.events if event in ("paused", "resumed")]
        assert paces == ["paused", "resumed"] * (len(paces) // 2)


def test_a_large_write_waits_in_plain_text_for_a_slow_peer() -> None:
    later = Later()
    pair = Pair(server_work=TlsWork(writes=later))
    pair.settle()
    pair.server.write([bytes(3 * PIECE_BYTES)])
    assert pair.users[0].events[-1] == "paused"
    assert pair.server.unsent_bytes() == 3 * PIECE_BYTES
    assert later.do_one()
    assert PIECE_BYTES < len(pair.lines[0].written) < 1.01 * PIECE_BYTES  # another piece is in the thread
    assert pair.lines[0].longest_chunk < 1.01 * SLICE_BYTES  # the engine keeps memory for its largest write
    pair.server.writing_paused()
    assert later.do_one()
    assert not later.jobs  # the rest waits
    pair.settle()
    pair.server.writing_resumed()
    while later.do_one() or pair.carry():
        continue
    assert len(pair.users[1].data) == 3 * PIECE_BYTES
    assert pair.users[0].events[-1] == "resumed"


def test_it_is_encrypted_on_the_loop_when_the_threads_are_busy() -> None:
    later = Later()
    later.is_busy = True
    pair = Pair(server_work=TlsWork(writes=later))
    pair.settle()
    pair.server.write([bytes(2 * PIECE_BYTES)])
    pair.settle()
    assert len(pair.users[1].data) == 2 * PIECE_BYTES


def test_close_sends_what_is_queued_first() -> None:
    later = Later()
    pair = Pair(server_work=TlsWork(writes=later))
    pair.settle()
    pair.server.write([bytes(LARGE_WRITE_BYTES)])
    pair.server.close()
    pair.server.write([b"too late"])
    assert not pair.lines[0].is_closed
    later.do_one()
    assert pair.lines[0].is_closed
    pair.settle()
    assert len(pair.users[1].data) == LARGE_WRITE_BYTES
    assert pair.lines[1].is_closed  # it was told by TLS


def test_an_end_while_a_thread_works_is_no_error() -> None:
    for work in ("handshakes", "writes"):
        later = Later()
        pair = Pair(server_work=TlsWork(**{work: later}))
        pair.settle()
        if work == "writes":
            pair.server.write([bytes(LARGE_WRITE_BYTES)])
        assert later.jobs
        pair.server.abort()
        pair.server.disconnected(None)
        assert later.do_one()
        assert pair.users[0].events[-2:] == ["ended", "disconnected"]
        assert not pair.failures


def test_a_failed_handshake_has_a_reason_and_the_peer_an_alert() -> None:
    stranger = client_context_of(material(None, by="another authority"), checks_host=True)
    pair = Pair(client=stranger)
    pair.settle()
    assert pair.lines[1].is_closed
    pair.settle()
    pair.lines[0].give(bytes(pair.lines[1].written))
    assert [reason_of_failure(error) for error in pair.failures] == ["tlsv1 alert unknown ca"]
    assert pair.lines[0].is_closed
    pair.client.disconnected(None)
    assert isinstance(pair.users[1].error, ssl.SSLCertVerificationError)
    assert "certificate not accepted: " in reason_of_failure(pair.users[1].error)
    assert "connected" not in pair.users[1].events


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_that_comes_again_is_the_same_one(version: str) -> None:
    """A session that is resumed has no certificate in its handshake; the server knows it from the session."""
    server = server_context(material("broker", "localhost", versions=(version,)), REQUIRED)
    client = client_context_of(material("alice"), checks_host=True)
    first = Pair(server, client)
    first.settle()
    first.client.write([b"x"])
    first.settle()
    session = first.client._tls.session
    assert session is not None
    again = Pair(server, client, session=session)
    again.settle()
    assert again.is_secured == [True, True]
    assert again.client._tls.session_reused
    assert again.server.certificate == first.server.certificate is not None
    renewed = server_context(material("broker", "localhost", versions=(version,)), REQUIRED)
    other = Pair(renewed, client, session=session)
    other.settle()
    assert other.is_secured == [True, True]
    assert not other.client._tls.session_reused  # what was trusted before may not be trusted any more


def test_a_client_without_a_certificate_is_refused_where_one_is_required() -> None:
    pair = Pair(server_context(material("broker", "localhost"), REQUIRED))
    pair.settle()
    assert [reason_of_failure(error) for error in pair.failures] == ["peer did not return a certificate"]


def test_a_name_that_the_certificate_lacks_is_refused() -> None:
    pair = Pair(host="elsewhere")
    pair.settle()
    pair.client.disconnected(None)
    assert isinstance(pair.users[1].error, ssl.SSLCertVerificationError)
    assert pair.is_secured[1] is False


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=2_000), st.integers(0, 3))
def test_rubbish_ends_the_connection_once_and_keeps_nothing(data: bytes, steps: int) -> None:
    """Anything behind any part of a handshake."""
    pair = Pair()
    for _ in range(steps):
        pair.carry()
    line = pair.lines[0]
    if not line.is_closed:
        line.give(data)
    assert len(pair.failures) <= 1
    if pair.failures:
        assert line.is_closed
        assert reason_of_failure(pair.failures[0])
    pair.server.disconnected(None)
    assert pair.users[0].events[-2:] == ["ended", "disconnected"]
    assert pair.server.unsent_bytes() == 0
