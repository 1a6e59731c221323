"""Ranges of files over real sockets: what arrives, in what order, when they are released, and what ends them early."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.disk.os_filesystem import OsFile, OsFileSystem
from runtime.network.file_range import BEGUN_BYTES, FileRange, Piece, ShortFile, first_in_memory, in_memory
from runtime.network.os_connection import PATIENCE_MS, WRITE_HIGH_WATER_BYTES
from runtime.network.os_large_write import LargeWrite
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.network.transport import Connection
from tests.async_tests import played_by
from tests.runtime.network.test_large_writes import RUNS, Story, hears, no_socket_left, receive, tell, turn_until
from tests.runtime.recorder import Recorder

__all__ = ["tell"]  # a fixture

# The tests below are stories that the fixture plays.
told = played_by(lambda tell, story: tell(story), "tell", gives=3)

MiB = 1 << 20
CONTENT = random.Random(1).randbytes(6 * MiB)


class Ranges:
    """Makes ranges of one file and counts what is released."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(CONTENT)
        self.file = OsFileSystem().open(str(path))
        self.made = 0
        self.released = 0

    def range(self, position: int, length: int) -> FileRange:
        self.made += 1
        return FileRange(self.file, position, length, self._on_released)

    def _on_released(self) -> None:
        self.released += 1

    @property
    def are_released(self) -> bool:
        return self.released == self.made


@pytest.fixture
def ranges(tmp_path: Path) -> Iterator[Ranges]:
    made = Ranges(tmp_path / "file")
    yield made
    assert made.are_released, f"{made.released} of {made.made} released"
    made.file.close()


Tell = Callable[[Story], None]


async def fill_the_socket(connection: Connection) -> bytes:
    """Returns what was written: the transport has a part of it, too little to be told that the peer is slow."""
    piece, count = b"x" * 1000, 0
    while connection.unsent_bytes() < 50_000:
        connection.write([piece])
        count += 1
        await asyncio.sleep(0)
    return piece * count


def is_closing(connection: Connection) -> bool:
    return bool(getattr(connection, "_is_closing"))  # noqa: B009  its own business


async def until_it_waits(connection: Connection) -> None:
    """Returns when the socket is full, and the connection waits for room in it."""
    await turn_until(lambda: bool(getattr(connection, "_waits_for_room")))  # noqa: B009  its own business


@told
async def test_ranges_and_buffers_arrive_in_their_order(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges
) -> None:
    connection.write([b"head", ranges.range(7, 2 * MiB), b"tail", ranges.range(0, 1), b"", ranges.range(5, MiB)])
    connection.write([b"small"])
    connection.write([ranges.range(3 * MiB, 3 * MiB), b"end"])
    wanted = (
        b"head" + CONTENT[7 : 2 * MiB + 7] + b"tail" + CONTENT[:1] + CONTENT[5 : MiB + 5]
        + b"small" + CONTENT[3 * MiB :] + b"end"
    )  # fmt: skip
    # What leaves on the loop has left.
    assert len(wanted) - BEGUN_BYTES - len(b"head") <= connection.unsent_bytes() <= len(wanted)
    assert await receive(peer, len(wanted)) == wanted
    await hears(server, "resumed")
    assert connection.unsent_bytes() == 0 and ranges.are_released
    assert server.events == ["connected", "paused", "resumed"]


@told
async def test_a_range_waits_for_what_the_transport_has_not_sent(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges
) -> None:
    before = await fill_the_socket(connection)
    connection.write([b"head", ranges.range(0, MiB)])
    connection.write([b"tail"])
    wanted = before + b"head" + CONTENT[:MiB] + b"tail"
    assert await receive(peer, len(wanted)) == wanted
    await hears(server, "resumed")
    assert connection.unsent_bytes() == 0


@told
async def test_of_a_peer_that_does_not_read_nothing_is_read_into_memory(
    server: Recorder,
    connection: Connection,
    peer: socket.socket,
    ranges: Ranges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FileRange, "read", None)
    monkeypatch.setattr(OsFile, "read_at", None)
    connection.write([b"head", ranges.range(0, 6 * MiB)])
    await until_it_waits(connection)
    assert server.events[-1] == "paused" and not ranges.released
    assert 0 < connection.unsent_bytes() < 6 * MiB
    arrived = b""
    while len(arrived) < 6 * MiB + 4:
        arrived += await receive(peer, min(200_000, 6 * MiB + 4 - len(arrived)))
    assert arrived == b"head" + CONTENT
    await hears(server, "resumed")


@told
async def test_closing_sends_what_is_queued_first(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges
) -> None:
    connection.write([b"head", ranges.range(0, 6 * MiB)])
    await until_it_waits(connection)
    connection.write([ranges.range(0, MiB), b"tail"])
    connection.close()
    connection.write([b"late", ranges.range(0, MiB)])
    wanted = b"head" + CONTENT + CONTENT[:MiB] + b"tail"
    assert await receive(peer, len(wanted) + 1) == wanted
    await hears(server, "disconnected")


@pytest.mark.parametrize("is_waiting", [False, True])
@told
async def test_an_abort_releases_what_is_on_its_way(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges, is_waiting: bool
) -> None:
    connection.write([b"head", ranges.range(0, 6 * MiB)])
    connection.write([ranges.range(0, MiB), b"tail"])
    if is_waiting:
        await until_it_waits(connection)
    connection.abort()
    await hears(server, "disconnected")
    await turn_until(lambda: ranges.are_released)
    connection.write([b"x", ranges.range(0, MiB)])
    assert ranges.are_released


@pytest.mark.parametrize("is_waiting", [False, True])
@told
async def test_a_peer_that_resets_the_connection(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges, is_waiting: bool
) -> None:
    connection.write([b"head", ranges.range(0, 6 * MiB)])
    if is_waiting:
        await until_it_waits(connection)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    await hears(server, "disconnected")
    await turn_until(lambda: ranges.are_released)


def test_a_short_file_ends_that_connection_alone(tell: Tell, ranges: Ranges, caplog: pytest.LogCaptureFixture) -> None:
    async def story(server: Recorder, connection: Connection, peer: socket.socket) -> None:
        os.truncate(ranges.file.path, MiB)
        connection.write([b"head", ranges.range(0, 2 * MiB)])
        await hears(server, "disconnected")
        assert isinstance(server.error, ShortFile)
        assert await receive(peer, 3 * MiB) == b"head" + CONTENT[:MiB]

    tell(story)
    told = [each.getMessage() for each in caplog.records if each.name == "runtime.network.os_connection"]
    assert len(told) == 1 and told[0].startswith("connection reset, its records cannot be read: address=127.0.0.1:")
    assert ranges.file.path in told[0]


@pytest.mark.parametrize("is_waiting", [False, True])
@told
async def test_what_is_revoked_resets_the_connection_first(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges, is_waiting: bool
) -> None:
    """The peer gets a reset: a plain close would let the kernel send pages that change."""
    first, second = ranges.range(0, 6 * MiB), ranges.range(0, MiB)
    connection.write([b"head", first])
    connection.write([b"head", second])
    if is_waiting:
        await until_it_waits(connection)
    left: list[str] = []
    assert not second.revoke(lambda: left.append("second")), "nothing of it was sent"
    assert first.revoke(lambda: left.append("first"))
    await hears(server, "disconnected")
    await turn_until(lambda: left == ["first"])
    assert ranges.are_released
    with pytest.raises(ConnectionResetError):
        await receive(peer, 7 * MiB)


@pytest.mark.parametrize("is_filled", [False, True])
@told
async def test_a_peer_that_has_half_closed_gets_what_was_written(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges, is_filled: bool
) -> None:
    before = await fill_the_socket(connection) if is_filled else b""
    connection.write([b"head", ranges.range(0, 6 * MiB)])
    connection.write([ranges.range(0, MiB), b"tail"])
    peer.shutdown(socket.SHUT_WR)
    await turn_until(lambda: is_closing(connection))
    connection.write([b"late"])
    wanted = before + b"head" + CONTENT + CONTENT[:MiB] + b"tail"
    assert await receive(peer, len(wanted) + 1) == wanted
    await hears(server, "disconnected")


@pytest.mark.parametrize("is_filled", [False, True])
@told
async def test_what_a_peer_that_has_half_closed_does_not_read_can_be_revoked(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges, is_filled: bool
) -> None:
    """The connection closes when the peer has read everything, which may be never: a truncation is not to wait for it."""
    if is_filled:
        await fill_the_socket(connection)
    held = ranges.range(0, 6 * MiB)
    connection.write([b"head", held])
    peer.shutdown(socket.SHUT_WR)
    await turn_until(lambda: is_closing(connection))
    assert server.events[-1] != "disconnected" and not ranges.are_released
    left: list[str] = []
    assert held.revoke(lambda: left.append("held"))
    await hears(server, "disconnected")
    await turn_until(lambda: left == ["held"])
    assert ranges.are_released


@told
async def test_a_revoked_range_behind_another_one_resets_the_connection_when_it_is_its_turn(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges
) -> None:
    revoked = ranges.range(0, MiB)
    connection.write([b"head", ranges.range(0, MiB)])
    connection.write([b"head", revoked])
    assert not revoked.revoke(lambda: None)
    with pytest.raises(ConnectionResetError):
        await receive(peer, 3 * MiB)
    await hears(server, "disconnected")


@told
async def test_a_range_that_was_revoked_before_it_is_written_resets_the_connection(
    server: Recorder, connection: Connection, peer: socket.socket, ranges: Ranges
) -> None:
    revoked = ranges.range(0, MiB)
    assert not revoked.revoke(lambda: None)
    assert ranges.are_released
    connection.write([b"head", revoked, ranges.range(0, MiB)])
    await hears(server, "disconnected")
    with pytest.raises(ConnectionResetError):
        await receive(peer, 1)


@told
async def test_without_a_free_descriptor_the_range_is_read(
    server: Recorder,
    connection: Connection,
    peer: socket.socket,
    ranges: Ranges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_more(_descriptor: int) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "dup", no_more)
        connection.write([b"head", ranges.range(0, MiB), b"tail"])
        connection.write([b"more", ranges.range(7, MiB)])
        wanted = b"head" + CONTENT[:MiB] + b"tail" + b"more" + CONTENT[7 : MiB + 7]
        assert await receive(peer, len(wanted)) == wanted
        await hears(server, "resumed")


@told
async def test_without_a_free_descriptor_little_is_read_ahead_of_the_peer(
    server: Recorder,
    connection: Connection,
    peer: socket.socket,
    ranges: Ranges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the reserved descriptors are not taken: those who do not read would take the log directories offline."""
    gc.collect()  # descriptors that other tests have left to it
    before = os.dup(peer.fileno())
    os.close(before)
    monkeypatch.setattr(connection, "_options", SocketOptions(last_descriptor=before - 1))
    connection.write([b"head", ranges.range(0, 6 * MiB), b"tail"])
    for _ in range(1000):
        await asyncio.sleep(0)
    buffered_bytes = getattr(connection, "_transport").get_write_buffer_size()  # noqa: B009  its own business
    assert buffered_bytes <= WRITE_HIGH_WATER_BYTES + 4
    after = os.dup(peer.fileno())
    os.close(after)
    assert after <= before, "a descriptor was taken"
    assert await receive(peer, 6 * MiB + 8) == b"head" + CONTENT + b"tail"
    await hears(server, "resumed")
    assert server.events == ["connected", "paused", "resumed"] and connection.unsent_bytes() == 0


@told
async def test_a_file_that_cannot_be_sent_is_copied(
    server: Recorder,
    connection: Connection,
    peer: socket.socket,
    ranges: Ranges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", refuse)
    connection.write([b"head", ranges.range(7, 5 * MiB), b"tail"])
    assert await receive(peer, 5 * MiB + 8) == b"head" + CONTENT[7 : 5 * MiB + 7] + b"tail"
    os.truncate(ranges.file.path, MiB)
    connection.write([ranges.range(0, 2 * MiB)])
    await hears(server, "disconnected")
    assert isinstance(server.error, ShortFile)


def test_a_range_that_is_dropped_releases_itself(ranges: Ranges) -> None:
    pieces: list[Piece] = [ranges.range(0, 10)]
    assert not ranges.released
    pieces.clear()
    assert ranges.are_released


def test_ranges_in_memory(ranges: Ranges) -> None:
    assert in_memory([b"a", ranges.range(3, 5)]) == [b"a", CONTENT[3:8]]
    with pytest.raises(ShortFile):
        in_memory([ranges.range(6 * MiB - 1, 2)])


def test_the_first_bytes_of_ranges_in_memory(ranges: Ranges) -> None:
    rest: list[Piece] = [b"a", ranges.range(3, 5), b"b", ranges.range(0, 7), b"c"]
    taken: list[list[bytes]] = []
    while rest:
        buffers, rest = first_in_memory(rest, 4)
        taken.append([bytes(each) for each in buffers])
    assert taken == [[b"a", CONTENT[3:6]], [CONTENT[6:8], b"b", CONTENT[:1]], [CONTENT[1:5]], [CONTENT[5:7], b"c"]]
    assert ranges.are_released
    with pytest.raises(ShortFile):
        first_in_memory([ranges.range(6 * MiB - 1, 2)], 2)


@told
async def test_a_slow_peer_has_no_patience_of_threads(
    server: Recorder,
    connection: Connection,
    peer: socket.socket,
    ranges: Ranges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience: list[int] = []
    send = LargeWrite.send

    def watched(write: LargeWrite) -> list[Piece]:
        patience.append(write.patience_ms)
        return send(write)

    monkeypatch.setattr(LargeWrite, "send", watched)
    connection.write([b"head", ranges.range(0, 6 * MiB)])
    await until_it_waits(connection)
    await receive(peer, 6 * MiB + 4)
    await hears(server, "resumed")
    connection.write([b"head", ranges.range(0, MiB)])
    await receive(peer, MiB + 4)
    assert patience[0] == PATIENCE_MS and not any(patience[1:])


@pytest.mark.parametrize("run", RUNS, ids=["asyncio", "uvloop"])
def test_hundreds_of_connections_get_their_own_bytes(run: Callable[[Any], Any], ranges: Ranges) -> None:
    """Half of them begin to read when the others are through: with eight threads, nobody waits for them."""
    count, length = 200, MiB

    async def main() -> None:
        network = OsNetwork()
        servers: list[Recorder] = []

        def accept() -> Recorder:
            servers.append(Recorder())
            return servers[-1]

        listener = await network.listen("127.0.0.1", 0, accept)
        loop = asyncio.get_running_loop()
        peers: list[socket.socket] = []
        for _ in range(count):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            peer.setblocking(False)
            await loop.sock_connect(peer, ("127.0.0.1", listener.address.port))
            peers.append(peer)
        await turn_until(lambda: len(servers) == count)
        for number, server in enumerate(servers):
            await server.until(lambda server=server: bool(server.events))  # type: ignore[misc]
            assert server.connection is not None
            server.connection.write([b"%04d" % number, ranges.range(number, length)])
        seen: set[int] = set()

        async def read(peer: socket.socket) -> None:
            arrived = await receive(peer, length + 4)
            number = int(arrived[:4])
            assert arrived[4:] == CONTENT[number : number + length]
            seen.add(number)

        await asyncio.gather(*map(read, peers[::2]))
        await asyncio.gather(*map(read, peers[1::2]))
        assert len(seen) == count
        await turn_until(lambda: ranges.are_released)
        for server, peer in zip(servers, peers, strict=True):
            peer.close()
            await hears(server, "disconnected")
        await listener.close()
        network.close()

    with no_socket_left():
        run(main())
