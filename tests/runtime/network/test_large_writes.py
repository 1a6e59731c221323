"""Writes that begin in a thread: what arrives, in what order, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from runtime.disk.filesystem import Buffer
from runtime.network import os_connection
from runtime.network.os_connection import LARGE_WRITE_BYTES, PATIENCE_MS
from runtime.network.os_large_write import LargeWrite
from runtime.network.os_transport import SENDING_THREADS, OsNetwork
from runtime.network.transport import Connection
from tests.runtime.recorder import Recorder

KiB = 1024
LARGE = bytes(range(256)) * (LARGE_WRITE_BYTES // 256 * 8)
DOES_NOT_PAUSE = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)
RUNS: list[Callable[[Any], Any]] = [asyncio.run, uvloop.run]


async def hears(server: Recorder, event: str) -> None:
    """Returns when this is the last that it has heard."""
    await server.until(lambda: server.events[-1:] == [event])


Story = Callable[[Recorder, Connection, socket.socket], Awaitable[None]]


@contextmanager
def no_socket_left() -> Iterator[None]:
    def sockets() -> set[str]:
        gc.collect()  # what other tests have left to it
        links = {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
        return {link for link in links if link.startswith("socket:")}

    before = sockets()
    yield
    assert sockets() <= before


@pytest.fixture(params=RUNS, ids=["asyncio", "uvloop"])
def tell(request: pytest.FixtureRequest) -> Iterator[Callable[[Story], None]]:
    """Runs a story of a server's handler, its connection and its peer's blocking socket."""

    async def main(story: Story) -> None:
        network, server = OsNetwork(), Recorder()
        listener = await network.listen("127.0.0.1", 0, lambda: server)
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KiB)
            peer.setblocking(False)
            await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", listener.address.port))
            await hears(server, "connected")
            assert server.connection is not None
            try:
                await story(server, server.connection, peer)
            finally:  # a loop of uvloop that is closed under an open connection may wait forever
                if "disconnected" not in server.events:
                    server.connection.abort()
                    await hears(server, "disconnected")
                # What the peer has received a thread may not have reported yet.
                await turn_until(lambda: getattr(server.connection, "_leaving", None) is None)
                await listener.close()
                network.close()

    def run(story: Story) -> None:
        request.param(main(story))

    with no_socket_left():
        yield run


async def receive(peer: socket.socket, size: int) -> bytes:
    content = bytearray()
    async with asyncio.timeout(20):
        while len(content) < size:
            piece = await asyncio.get_running_loop().sock_recv(peer, size - len(content))
            if not piece:
                break
            content += piece
    return bytes(content)


async def turn_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  threads tell nobody but the connection
            await asyncio.sleep(0)


def test_large_and_small_writes_arrive_in_their_order(tell: Callable[[Story], None]) -> None:
    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        written = b""
        writes: list[list[Buffer]] = [[LARGE] * 64, [b"small"], [b"head", LARGE, memoryview(LARGE)[7:], b"", b"tail"]]
        for chunks in writes:
            connection.write(chunks)
            written += b"".join(chunks)
        assert connection.unsent_bytes() == len(written)
        assert await receive(peer, len(written)) == written
        await hears(server, "resumed")
        assert connection.unsent_bytes() == 0
        assert server.events == ["connected", "paused", "resumed"]

    tell(story)


def test_a_large_write_may_have_more_buffers_than_one_call_takes(tell: Callable[[Story], None]) -> None:
    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        for _ in range(3):
            connection.write([*[b"x"] * 2500, LARGE])
            assert await receive(peer, 2500 + len(LARGE)) == b"x" * 2500 + LARGE
            await hears(server, "resumed")

    tell(story)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of each large write that a thread is through with: its patience in ms, and the bytes that it left to the loop."""
    writes: list[tuple[int, int]] = []
    send = LargeWrite.send

    def watched(write: LargeWrite) -> list[Buffer]:
        rest = send(write)
        writes.append((write.patience_ms, sum(map(len, rest))))
        return rest

    monkeypatch.setattr(LargeWrite, "send", watched)
    return writes


def test_a_thread_waits_for_a_peer_that_reads(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch, sent: list[tuple[int, int]]
) -> None:
    patience_ms = 20_000
    monkeypatch.setattr(os_connection, "PATIENCE_MS", patience_ms)

    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        for _ in range(2):
            connection.write([LARGE] * 64)  # more than the kernel's buffers hold
            assert server.events[-1] == "paused"
            assert "large write 1" in {thread.name for thread in threading.enumerate()}
            assert await receive(peer, len(LARGE) * 64) == LARGE * 64
            await hears(server, "resumed")

    tell(story)
    assert sent == [(patience_ms, 0)] * 2


def test_a_slow_peer_is_waited_for_once_in_a_while(
    request: pytest.FixtureRequest,
    tell: Callable[[Story], None],
    monkeypatch: pytest.MonkeyPatch,
    sent: list[tuple[int, int]],
) -> None:
    if request.node.callspec.params["tell"] is asyncio.run and DOES_NOT_PAUSE:
        pytest.skip("asyncio's writelines does not pause its protocol: CVE-2024-12254")
    monkeypatch.setattr(os_connection, "HASTY_WRITES", 2)

    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        for _ in range(4):
            connection.write([LARGE] * 64)
            await turn_until(lambda: connection.unsent_bytes() < len(LARGE) * 64)
            assert connection.unsent_bytes() > 0
            assert server.events[-1] == "paused"
            assert await receive(peer, len(LARGE) * 64) == LARGE * 64
            await hears(server, "resumed")

    tell(story)
    assert [patience_ms for patience_ms, _ in sent] == [PATIENCE_MS, 0, 0, PATIENCE_MS]
    assert all(rest > 0 for _, rest in sent)


def test_a_thread_that_waits_gives_up_when_the_connection_ends(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch, sent: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(os_connection, "PATIENCE_MS", 20_000)

    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        connection.write([LARGE] * 64)
        connection.abort()
        await hears(server, "disconnected")
        received = await receive(peer, len(LARGE) * 64)
        assert len(received) < len(LARGE) * 64
        await turn_until(lambda: len(sent) == 1)

    tell(story)
    assert sent[0][1] > 0


def test_what_is_written_before_the_close_arrives(tell: Callable[[Story], None]) -> None:
    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        connection.write([LARGE])
        connection.write([b"behind"])
        connection.close()
        connection.write([b"dropped"])
        connection.resume_reading()
        assert await receive(peer, 2 * len(LARGE)) == LARGE + b"behind"
        await hears(server, "disconnected")
        assert server.events == ["connected", "paused", "disconnected"]
        assert server.error is None

    tell(story)


def test_an_abort_drops_what_has_not_left(tell: Callable[[Story], None]) -> None:
    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        connection.write([LARGE] * 64)
        connection.write([b"behind"])
        connection.abort()
        await hears(server, "disconnected")
        assert connection.unsent_bytes() == 0
        received = await receive(peer, 65 * len(LARGE))
        assert (LARGE * 64).startswith(received)
        assert len(received) < len(LARGE) * 64

    tell(story)


def test_a_peer_that_goes_away_in_a_large_write_is_heard_once(tell: Callable[[Story], None]) -> None:
    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        connection.pause_reading()  # so that only the write can find out
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()  # with a reset
        connection.write([LARGE])
        await hears(server, "disconnected")
        assert server.events == ["connected", "paused", "disconnected"]
        assert isinstance(server.error, OSError)

    tell(story)


def test_without_a_free_descriptor_the_loop_sends(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> int:
        raise OSError(24, "Too many open files")

    async def story(_server: Recorder, connection: Connection, peer: socket.socket) -> None:
        monkeypatch.setattr(os, "dup", full)
        connection.write([LARGE])
        assert await receive(peer, len(LARGE)) == LARGE

    tell(story)


def test_while_the_threads_are_busy_the_loop_sends() -> None:
    """A large answer does not wait in line behind those of others."""

    async def main() -> None:
        network = OsNetwork()
        servers: list[Recorder] = []

        def serve() -> Recorder:
            servers.append(Recorder())
            return servers[-1]

        listener = await network.listen("127.0.0.1", 0, serve)
        may_go_on, begun = threading.Event(), threading.Semaphore(0)
        first = Recorder()
        connection = await network.connect("127.0.0.1", listener.address.port, first)
        senders = connection._senders  # type: ignore[attr-defined]

        def occupy() -> None:
            begun.release()
            may_go_on.wait(20)

        for _ in range(SENDING_THREADS):
            senders.start(occupy, lambda _result, _error: None)
        for _ in range(SENDING_THREADS):
            await asyncio.to_thread(begun.acquire, timeout=20)
        assert senders.is_busy
        connection.write([LARGE])
        await turn_until(lambda: bool(servers) and len(servers[0].data) == len(LARGE))
        may_go_on.set()
        connection.abort()
        await hears(first, "disconnected")
        await hears(servers[0], "disconnected")
        await listener.close()
        network.close()

    uvloop.run(main())
