"""One connection: the order of its replies, and the bounds of what it can make the server keep."""

from __future__ import annotations

import asyncio

import pytest

from metadata.store.committed_tree import Written
from metadata.store.node_tree import StoredSession
from metadata.store.port import StoreError
from metadata.store.server import connection as module
from metadata.store.server.connection import PENDING_BYTES_MAX, PENDING_REQUESTS_MAX
from metadata.store.server.sessions import GREETING_TIMEOUT_MS
from metadata.store.zookeeper import wire
from metadata.store.zookeeper.wire import OpCode, ReplyCode
from tests.differential.store.play import create_body, set_body, typed, watched
from tests.metadata.store.server.wires import ROOM_BYTES, ask, greeting, world


async def test_replies_come_in_order_and_reads_show_the_writes_before_them() -> None:
    async with world() as scene:
        link = await scene.client()
        link.give(
            ask(1, OpCode.CREATE, create_body("/a", b"1"))
            + ask(2, OpCode.GET_DATA, watched("/a", watch=True))
            + ask(3, OpCode.SET_DATA, set_body("/a", b"2"))
            + ask(4, OpCode.EXISTS, watched("/none"))
            + ask(5, OpCode.GET_DATA, watched("/a"))
            + ask(wire.PING_XID, OpCode.PING)
        )
        assert link.replies() == []
        await scene.settled()
        assert [(xid, error) for xid, _, error, _ in link.replies()] == [
            (1, 0), (2, 0), (wire.NOTIFICATION_XID, 0), (3, 0), (4, ReplyCode.NO_NODE), (5, 0), (wire.PING_XID, 0),
        ]  # fmt: skip
        assert link.replies()[1][3].startswith(wire.opaque(b"1"))
        assert link.replies()[5][3].startswith(wire.opaque(b"2"))


async def test_bytes_may_come_one_by_one() -> None:
    async with world() as scene:
        link = scene.connect()
        for byte in greeting() + ask(1, OpCode.GET_CHILDREN, watched("/")):
            link.give(bytes([byte]))
            await scene.settled()
        assert [(xid, error) for xid, _, error, _ in link.replies()] == [(1, 0)]
        probe = scene.connect()
        for byte in b"ruok":
            probe.give(bytes([byte]))
        assert (probe.sent, probe.is_open) == (b"imok", False)


async def test_nothing_is_executed_for_a_client_that_does_not_read() -> None:
    async with world() as scene:
        link = await scene.client()
        link.give(ask(1, OpCode.CREATE, create_body("/a", b"x" * 50_000)))
        await scene.settled()
        link.give(b"".join(ask(xid, OpCode.GET_DATA, watched("/a")) for xid in range(2, 502)))
        assert link.unread_bytes < ROOM_BYTES + 60_000
        assert not link.is_reading
        executed = len(link.replies())
        assert executed < 4
        while len(link.replies()) < 501:
            link.read()
            assert link.unread_bytes < ROOM_BYTES + 60_000
        assert [xid for xid, *_ in link.replies()] == list(range(1, 502))
        link.read()
        assert link.is_reading


@pytest.mark.parametrize(
    ("count", "size", "begun"),
    [(3 * PENDING_REQUESTS_MAX, 1, PENDING_REQUESTS_MAX), (20, 900_000, PENDING_BYTES_MAX // 900_000 + 1)],
    ids=["number", "bytes"],
)
async def test_writes_that_wait_for_the_tree_are_bounded(count: int, size: int, begun: int) -> None:
    async with world() as scene:
        link = await scene.client(room_bytes=10**9)
        before = scene.service.tree.zxid
        for number in range(count):
            link.give(ask(number, OpCode.CREATE, create_body(f"/{number}", b"x" * size)))
        [client] = scene.service.sessions
        assert client.outstanding_count == begun
        assert not link.is_reading
        while len(link.replies()) < count:
            await scene.settled()
            assert client.outstanding_count <= begun
        assert [xid for xid, *_ in link.replies()] == list(range(count))
        assert scene.service.tree.zxid == before + count
        assert link.is_reading


async def test_watch_events_that_nobody_reads_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNSENT_BYTES_MAX", 10_000)
    async with world() as scene:
        sleeper, writer = await scene.client(room_bytes=100), await scene.client()
        sleeper.give(ask(1, OpCode.ADD_WATCH, typed("/", 1)))
        for number in range(1_000):
            writer.give(ask(number, OpCode.SET_DATA, set_body("/", b"")))
        await scene.settled()
        assert sleeper.is_aborted
        assert sleeper.unread_bytes < 11_000
        assert len(scene.service.watches) == 0
        assert writer.is_open


async def test_connections_of_one_address_are_bounded() -> None:
    async with world(connections_max=2) as scene:
        links = [scene.connect() for _ in range(3)]
        assert [link.is_aborted for link in links] == [False, False, True]
        assert not scene.connect(host="10.0.0.2").is_aborted
        links[0].cut()
        assert not scene.connect().is_aborted


async def test_who_does_not_greet_is_disconnected() -> None:
    async with world() as scene:
        link, silent = await scene.client(), scene.connect()
        scene.tick(GREETING_TIMEOUT_MS)
        link.give(ask(wire.PING_XID, OpCode.PING))
        assert silent.is_open
        scene.tick(2_000)
        assert not silent.is_open
        assert link.is_open


async def test_a_silent_session_is_closed_with_its_ephemerals_whether_connected_or_not() -> None:
    async with world() as scene:
        left, silent, lively = [await scene.client() for _ in range(3)]
        for number, link in enumerate((left, silent, lively)):
            link.give(ask(1, OpCode.CREATE, create_body(f"/{number}", flags=1)))
        await scene.settled()
        left.cut()
        for _ in range(8):
            scene.tick(2_000)
            lively.give(ask(wire.PING_XID, OpCode.PING))
            await scene.settled()
        assert not silent.is_open
        assert lively.is_open
        assert scene.service.tree.tree.children("/") == ["2"]
        assert len(scene.service.tree.sessions) == 1


async def test_a_full_disk_refuses_writes_and_sessions_and_nobody_expires_meanwhile() -> None:
    async with world() as scene:
        link = await scene.client()
        scene.disk.is_full = True
        link.give(ask(1, OpCode.CREATE, create_body("/a")) + ask(2, OpCode.EXISTS, watched("/a")))
        await scene.settled()
        assert [error for _, _, error, _ in link.replies()] == [ReplyCode.CONNECTION_LOSS, ReplyCode.NO_NODE]
        late = await scene.client()
        assert not late.is_open
        scene.tick(20_000)
        await scene.settled()
        assert len(scene.service.tree.sessions) == 1
        scene.disk.is_full = False
        for _ in range(2):
            scene.tick(2_000)
            await scene.settled()
        assert len(scene.service.tree.sessions) == 0
        assert not link.is_open


async def test_a_session_is_taken_up_when_the_writes_before_are_decided() -> None:
    async with world() as scene:
        old = await scene.client()
        [session] = scene.service.tree.sessions.values()
        old.give(ask(1, OpCode.CREATE, create_body("/a")))
        new = scene.connect()
        new.give(greeting(session.session_id, session.password) + ask(1, OpCode.EXISTS, watched("/a")))
        assert not old.is_open
        assert new.sent == b""
        await scene.settled()
        assert [error for _, _, error, _ in new.replies()] == [0]
        thief = scene.connect()
        thief.give(greeting(session.session_id, b"wrong" * 3) + ask(1, OpCode.EXISTS, watched("/a")))
        assert not thief.is_open
        assert new.is_open


async def test_the_session_of_an_embedded_store_is_taken_up_by_nobody() -> None:
    async with world() as scene:
        opened: asyncio.Future[Written | StoreError] = asyncio.get_running_loop().create_future()
        scene.service.tree.open_session(StoredSession(7, b"", 6_000), opened.set_result)
        await opened
        thief = scene.connect()
        thief.give(greeting(7, b"") + ask(1, OpCode.EXISTS, watched("/a")))
        assert not thief.is_open
