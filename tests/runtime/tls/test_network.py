"""TLS over any network door: here over loopback, against Python's own server side."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Connection
from runtime.tls.context import client_context_of, server_context
from runtime.tls.network import TlsNetwork
from runtime.tls.stream import TlsStream, TlsWork, reason_of_failure
from tests.tls_certificates import NOT_ASKED, material


class Ear:
    """A handler that keeps what it hears."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.connection: Connection | None = None
        self.error: Exception | None = None
        self.has_connected, self.has_ended, self.has_data = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._buffer = memoryview(bytearray(1_000))

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        self.has_connected.set()

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        self.data += self._buffer[:count]
        self.has_data.set()

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None:
        self.error = error
        self.has_ended.set()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def tell(serve: Serve, story: Callable[[Ear, TlsNetwork, int], Awaitable[None]]) -> None:
    server = await asyncio.start_server(
        serve, "127.0.0.1", 0, ssl=server_context(material("server", "localhost"), NOT_ASKED)
    )
    context = client_context_of(material(None), checks_host=True)
    try:
        async with asyncio.timeout(20):
            await story(Ear(), TlsNetwork(OsNetwork(), context), server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(10_000):
        writer.write(data)
    writer.close()


def test_bytes_go_both_ways_whole_and_in_order() -> None:
    async def story(ear: Ear, network: TlsNetwork, port: int) -> None:
        connection = await network.connect("localhost", port, ear)
        await ear.has_connected.wait()
        sent = bytes(index * 7 % 251 for index in range(500_000))
        for start in range(0, len(sent), 70_000):
            connection.write([sent[start : start + 30_000], sent[start + 30_000 : start + 70_000]])
        while len(ear.data) < len(sent):
            ear.has_data.clear()
            await ear.has_data.wait()
        assert ear.data == sent
        connection.close()
        await ear.has_ended.wait()

    asyncio.run(tell(echo, story))


def test_a_peer_that_says_goodbye_ends_the_connection() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.close()
        await reader.read()

    async def story(ear: Ear, network: TlsNetwork, port: int) -> None:
        await network.connect("localhost", port, ear)
        await ear.has_ended.wait()
        assert (bytes(ear.data), ear.error) == (b"bye", None)

    asyncio.run(tell(leave, story))


def test_a_name_that_the_certificate_does_not_have_is_refused() -> None:
    async def story(ear: Ear, network: TlsNetwork, port: int) -> None:
        await network.connect("127.0.0.1", port, ear)
        await ear.has_ended.wait()
        assert isinstance(ear.error, ssl.SSLCertVerificationError)
        assert ear.connection is None

    asyncio.run(tell(echo, story))


async def test_a_server_without_tls_is_refused() -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    context = client_context_of(material(None), checks_host=False)
    ear = Ear()
    await TlsNetwork(OsNetwork(), context).connect("localhost", server.sockets[0].getsockname()[1], ear)
    async with asyncio.timeout(20):
        await ear.has_ended.wait()
    assert isinstance(ear.error, ssl.SSLError)
    server.close()


async def test_a_renegotiation_ends_the_connection() -> None:
    context = server_context(material("broker", "localhost", versions=("TLSv1.2",)), NOT_ASKED)
    failures: list[Exception] = []

    def accept(ear: Ear) -> TlsStream:
        return TlsStream(
            ear, context, TlsWork(), is_announced_early=True, secured=lambda _stream: None, failed=failures.append
        )

    network = OsNetwork()
    ear = Ear()
    listener = await network.listen("127.0.0.1", 0, lambda: accept(ear))
    client = await asyncio.create_subprocess_exec(
        "openssl", "s_client", "-connect", str(listener.address), "-tls1_2",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert client.stdin is not None
    async with asyncio.timeout(20):
        client.stdin.write(b"hello\n")
        await ear.has_data.wait()
        client.stdin.write(b"R\n")  # begin another handshake
        await ear.has_ended.wait()
        client.stdin.close()
        await client.wait()
    await listener.close()
    assert bytes(ear.data) == b"hello\n"
    assert [reason_of_failure(error) for error in failures] == ["renegotiation"]
