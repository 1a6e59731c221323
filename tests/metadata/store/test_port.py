"""The conformance suite over the adapters, and what is particular to each."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from metadata.store.embedded import EmbeddedStore
from metadata.store.port import (
    ConnectionLossError,
    NodeExistsError,
    SessionEvent,
    SessionExpiredError,
    Stat,
    Store,
    WatchEvent,
    WatchKind,
)
from metadata.store.store_file import FILE_NAME, StoreFileError
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.tasks import TaskScope
from tests.metadata.store.conformance import CASES, Case, Seen, raises, settle
from tests.simulation.store import Fault, SimulatedEnsemble

Adapter = Callable[[Path], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def embedded(
    folder: Path, on_failed: Callable[[OSError], None] = lambda error: None
) -> AsyncIterator[EmbeddedStore]:
    queue = OsDiskQueue(str(folder), asyncio.get_running_loop())
    async with TaskScope("test") as tasks:
        store = await EmbeddedStore.open(str(folder / FILE_NAME), queue, SystemClock(), tasks, on_failed)
        try:
            yield store
        finally:
            await store.close()
            await queue.close()


@asynccontextmanager
async def simulated(_folder: Path) -> AsyncIterator[Store]:
    store = SimulatedEnsemble(SystemClock()).connect()
    yield store
    await store.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("adapter", [embedded, simulated], ids=lambda adapter: adapter.__name__)
async def test_conformance(adapter: Adapter, case: Case, tmp_path: Path) -> None:
    async with adapter(tmp_path) as store:
        await case(store)


# --- embedded ---


def test_embedded_keeps_nodes_and_stats_over_a_restart(tmp_path: Path) -> None:
    def identity(found: tuple[bytes, Stat]) -> object:
        data, stat = found
        return data, stat.version, stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms

    async def first() -> object:
        async with embedded(tmp_path) as store:
            await store.create("/a", b"one")
            await store.set("/a", b"two")
            await store.create("/a/n_", sequential=True)
            return identity(await store.get("/a"))

    async def second() -> object:
        async with embedded(tmp_path) as store:
            assert await store.create("/a/n_", sequential=True) == "/a/n_0000000001"
            await store.delete("/a/n_0000000001")
            assert (await store.get("/a"))[1].cversion == 3
            return identity(await store.get("/a"))

    assert asyncio.run(first()) == asyncio.run(second())


def test_embedded_knows_lone_children_and_others_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with embedded(tmp_path) as store:
            for path in ("/a", "/a/only", "/b", "/b/x", "/b/y", "/none"):
                await store.create(path, b"same")

    async def second() -> None:
        async with embedded(tmp_path) as store:
            assert [await store.children(path) for path in ("/a", "/b", "/none")] == [["only"], ["x", "y"], []]
            await store.create("/a/other")
            assert await store.children("/a") == ["only", "other"]
            for name, left in (("only", ["other"]), ("other", [])):
                await store.delete(f"/a/{name}")
                assert await store.children("/a") == left
            await store.delete("/a")
            await store.create("/a")
            assert await store.children("/a") == []

    asyncio.run(first())
    asyncio.run(second())


def test_embedded_forgets_the_ephemerals_of_an_earlier_life_and_raises_the_czxid(tmp_path: Path) -> None:
    async def crash() -> int:
        """Leave without closing, as a killed process does."""
        queue = OsDiskQueue(str(tmp_path), asyncio.get_running_loop())
        async with TaskScope("test") as tasks:
            store = await EmbeddedStore.open(str(tmp_path / FILE_NAME), queue, SystemClock(), tasks)
            await store.create("/ids")
            await store.create("/ids/0", ephemeral=True)
            stat = await store.exists("/ids/0")
            store._committed._file.close()
            await queue.close()
            assert stat is not None
            return stat.czxid

    async def restart() -> int:
        async with embedded(tmp_path) as store:
            assert await store.children("/ids") == []
            await store.create("/ids/0", ephemeral=True)
            stat = await store.exists("/ids/0")
            assert stat is not None
            return stat.czxid

    old, new = asyncio.run(crash()), asyncio.run(restart())
    assert new > old


async def test_embedded_keeps_no_second_copy_of_its_tree_in_memory(tmp_path: Path) -> None:
    async with embedded(tmp_path) as store:
        [(kib,)] = store._committed._file._connection.execute("PRAGMA cache_size")
        assert 0 < -kib <= 256


async def test_embedded_removes_its_ephemerals_when_it_closes(tmp_path: Path) -> None:
    async with embedded(tmp_path) as store:
        await store.create("/e", ephemeral=True)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as file:
        assert file.execute("SELECT path FROM node WHERE path = '/e'").fetchall() == []


async def test_embedded_answers_only_what_is_committed(tmp_path: Path) -> None:
    """While a commit runs, the write is neither readable nor answered."""
    async with embedded(tmp_path) as store:
        writing = asyncio.gather(store.create("/a"))
        await asyncio.sleep(0)
        assert await store.exists("/a") is None
        await writing
        assert await store.exists("/a") is not None


async def test_embedded_without_room_goes_on_when_there_is_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[OSError] = []
    async with embedded(tmp_path, failures.append) as store:
        connection = store._committed._file._connection
        [(pages,)] = connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count={pages}")
        await raises(ConnectionLossError, store.create("/a", bytes(100_000)))
        assert f"the store {tmp_path / FILE_NAME} refused a commit: database or disk is full" in caplog.text
        connection.execute("PRAGMA max_page_count=100000")
        await store.create("/a", bytes(100_000))
        assert failures == []


async def test_embedded_tells_once_that_its_file_takes_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every later write is refused at once: nothing is tried again for ever."""
    failures: list[OSError] = []
    async with embedded(tmp_path, failures.append) as store:
        await store.create("/a")
        store._committed._file._connection.execute("PRAGMA query_only=ON")  # as a file system that went read-only
        for _ in range(3):
            await raises(ConnectionLossError, store.create("/b"))
        assert [error.errno for error in failures] == [errno.EIO]
        assert await store.children("/") == ["a"]
    assert caplog.text.count("store commit failed") == 1


async def test_embedded_refuses_a_file_in_use(tmp_path: Path) -> None:
    async with embedded(tmp_path) as store:
        await store.create("/a")
        with pytest.raises(StoreFileError):
            async with embedded(tmp_path):
                pass


async def test_embedded_refuses_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreFileError):
        async with embedded(tmp_path):
            pass


# --- simulated: several sessions ---


async def test_sessions_share_the_tree_and_hear_of_each_other() -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    one, two = ensemble.connect(), ensemble.connect()
    seen = Seen()
    assert await two.exists("/a", seen) is None
    await one.create("/a")
    await raises(NodeExistsError, two.create("/a"))
    assert seen.events == [WatchEvent(WatchKind.CREATED, "/a")]


async def test_expiry_takes_ephemerals_and_watches_and_starts_a_new_session() -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    one, two = ensemble.connect(), ensemble.connect()
    events: list[SessionEvent] = []
    one.subscribe(events.append)
    old = one.session()
    seen, lost = Seen(), Seen()
    await one.create("/e", ephemeral=True)
    await one.get("/e", lost)
    await two.get("/e", seen)
    ensemble.expire(old.session_id)
    await settle(two)
    await raises(SessionExpiredError, old.get("/e"))
    assert seen.events == [WatchEvent(WatchKind.DELETED, "/e")]
    assert lost.events == []
    assert events == [SessionEvent.EXPIRED, SessionEvent.CONNECTED]
    assert one.session() is not old
    await one.create("/e", ephemeral=True)


@pytest.mark.parametrize(("fault", "is_applied"), [(Fault.REPLY_LOST, True), (Fault.REQUEST_LOST, False)])
async def test_a_lost_connection_leaves_the_outcome_open(fault: Fault, is_applied: bool) -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    store = ensemble.connect()
    ensemble.fault = lambda _session_id, _operations: fault
    await raises(ConnectionLossError, store.create("/a"))
    ensemble.fault = lambda _session_id, _operations: None
    assert (await store.exists("/a") is not None) is is_applied
