"""The ZooKeeper store over the ZooKeeper that Apache Kafka 3.9.1 was built with: the conformance suite straight and through
a proxy that cuts connections, and what only a real ensemble can show. kazoo looks on, as a client that is not ours."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import stat as file_modes
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id

from metadata.store.port import (
    ANY_VERSION,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    OperationResult,
    SessionEvent,
    SessionExpiredError,
    SetAcl,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
    WatchEvent,
    WatchKind,
)
from metadata.store.zookeeper.client import ClientDependencies
from metadata.store.zookeeper.ensemble import ConnectString
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.session import Credentials
from metadata.store.zookeeper.session_file import FILE_NAME, LogDirectorySessionFile
from metadata.store.zookeeper.store import ZooKeeperStore, open_zookeeper_store
from metadata.store.zookeeper.wire import OpCode
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.disk.os_filesystem import OsFileSystem
from runtime.network.os_transport import OsNetwork
from runtime.tasks import TaskScope
from tests.metadata.store.conformance import CASES, Case, Seen, raises, settle
from tests.metadata.store.cutting_proxy import WRITES, Cut, proxied
from tests.metadata.store.stats import CHANGES, ENDING, NEXT_SEQUENTIAL, Counts, End
from tests.metadata.store.zookeeper_world import MemorySessionFile, client_of, open_client, run_counters
from tests.oracle import java
from tests.oracle.zookeeper import Ensemble, ZooKeeper

pytestmark = pytest.mark.oracle

_numbers = itertools.count()
# Hardly a machine is too slow for it, however much else runs.
LONG_MS = 60_000
LONG = {"session_timeout_ms": LONG_MS, "connection_timeout_ms": LONG_MS}


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with ZooKeeper() as zookeeper:
        yield zookeeper


@pytest.fixture
def chroot() -> str:
    return f"/test-{next(_numbers)}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_conformance(server: ZooKeeper, chroot: str, case: Case) -> None:
    async with client_of(server.connect + chroot, **LONG) as client:
        await case(client.store)


# --- through a proxy that cuts ---


class Patient:
    """A store for callers who know that a write without an answer was lost: it is made again."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self._store = store
        self.session = store.session
        self.subscribe = store.subscribe
        self.close = store.close
        self.get, self.exists, self.children, self.sync = store.get, store.exists, store.children, store.sync

    async def _until_answered(self, write: Callable[[], Awaitable[object]]) -> object:
        while True:
            try:
                return await write()
            except ConnectionLossError:
                continue

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        made = await self._until_answered(
            lambda: self._store.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )
        assert isinstance(made, str)
        return made

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = await self._until_answered(lambda: self._store.set(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._until_answered(lambda: self._store.delete(path, version))

    async def multi(self, operations: Transaction) -> list[OperationResult]:
        results = await self._until_answered(lambda: self._store.multi(operations))
        assert isinstance(results, list)
        return results

    async def read_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        return await self._store.read_many(paths, watch)

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        outcomes: list[list[OperationResult] | StoreError] = []
        for transaction in transactions:
            try:
                outcomes.append(await self.multi(transaction))
            except StoreError as error:
                outcomes.append(error)
        return outcomes


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_conformance_through_cuts(server: ZooKeeper, chroot: str, case: Case, seed: int) -> None:
    """Writes are cut before they arrive, reads on either side."""
    rng = random.Random(seed)

    def fate(code: OpCode) -> Cut | None:
        if code is OpCode.CLOSE_SESSION or rng.random() > 0.4:
            return None
        return Cut.BEFORE if code in WRITES or rng.random() < 0.5 else Cut.AFTER

    async with proxied(server.connect) as proxy, client_of(proxy.connect + chroot, **LONG) as client:
        proxy.fate = fate
        async with asyncio.timeout(300):
            await case(Patient(client.store))  # type: ignore[arg-type]
        proxy.fate = lambda code: None


@pytest.mark.parametrize(("cut", "is_applied"), [(Cut.BEFORE, False), (Cut.AFTER, True)])
async def test_a_write_without_an_answer_is_told_as_that(
    server: ZooKeeper, chroot: str, cut: Cut, is_applied: bool
) -> None:
    async with proxied(server.connect) as proxy, client_of(proxy.connect + chroot, **LONG) as client:
        fates: dict[OpCode, Cut] = {OpCode.MULTI: cut}
        proxy.fate = lambda code: fates.pop(code, None)
        await raises(ConnectionLossError, client.store.multi([Create("/a"), Create("/a/b")]))
        assert (await client.store.exists("/a/b") is not None) is is_applied
        assert client.events == [SessionEvent.SUSPENDED, SessionEvent.CONNECTED]
        assert proxy.cuts == 1


async def test_watches_are_set_off_for_what_changed_while_cut(server: ZooKeeper, chroot: str) -> None:
    async with (
        client_of(server.connect + chroot, **LONG) as other,
        proxied(server.connect) as proxy,
        client_of(proxy.connect + chroot, **LONG) as client,
    ):
        store, seen = client.store, Seen()
        for path in ("/data", "/gone", "/parent", "/same"):
            await store.create(path)
        await store.get("/data", seen)
        await store.get("/gone", seen)
        await store.exists("/new", seen)
        await store.children("/parent", seen)
        await store.get("/same", seen)
        proxy.is_open = False
        proxy.cut()
        await client.hears(SessionEvent.SUSPENDED)
        await other.store.set("/data", b"x")
        await other.store.delete("/gone")
        await other.store.create("/new")
        await other.store.create("/parent/child")
        proxy.is_open = True
        await settle(store)
        assert sorted(seen.events, key=str) == sorted(
            [
                WatchEvent(WatchKind.CHANGED, "/data"),
                WatchEvent(WatchKind.DELETED, "/gone"),
                WatchEvent(WatchKind.CREATED, "/new"),
                WatchEvent(WatchKind.CHILDREN, "/parent"),
            ],
            key=str,
        )
        await other.store.set("/same", b"x")
        await settle(store)
        assert seen.events[-1] == WatchEvent(WatchKind.CHANGED, "/same")


async def test_counters_and_mirrors_stay_right_under_cuts_at_random(server: ZooKeeper, chroot: str) -> None:
    """Three clients raise one counter by versioned writes and decide by reading when an answer is lost; a fourth follows
    the counter through watches. Nothing is counted twice or lost, and the follower ends at the truth."""
    rng = random.Random(3)
    rounds = 25

    def fate(_code: OpCode) -> Cut | None:
        return rng.choice((Cut.BEFORE, Cut.AFTER)) if rng.random() < 0.12 else None

    async with proxied(server.connect) as proxy:
        clients = [await open_client(proxy.connect + chroot, **LONG) for _ in range(4)]
        proxy.fate = fate
        await run_counters([client.store for client in clients], rounds)
        proxy.fate = lambda code: None
        assert proxy.cuts > 10
        for client in clients:
            await client.store.close()
            await client.tasks.close()


# --- sessions ---


async def test_a_session_that_expires_is_followed_by_the_next(server: ZooKeeper, chroot: str) -> None:
    """The session is taken up by another connection and closed: to its owner that is an expiry."""
    async with client_of(server.connect + chroot, **LONG) as client:
        old = client.store.session()
        await old.create("/e", ephemeral=True)
        await _end(server, client.file.credentials)
        await client.hears(SessionEvent.CONNECTED)
        while client.store.session() is old:
            client.events.clear()
            await client.hears(SessionEvent.CONNECTED)
        await raises(SessionExpiredError, old.exists("/e"))
        assert await client.store.exists("/e") is None
        assert SessionEvent.EXPIRED in client.events
        await client.store.create("/e", ephemeral=True)


async def _end(server: ZooKeeper, credentials: Credentials | None) -> None:
    """As the next process on a directory would."""
    async with client_of(server.connect, file=MemorySessionFile(credentials), **LONG):
        return


def test_after_a_kill_the_next_process_is_registered_at_once(server: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    async def run() -> float:
        killed = await open_client(server.connect + chroot, **LONG)
        await killed.store.create("/ids-1", b"old", ephemeral=True)
        file = killed.file
        await killed.kill()
        begun = time.monotonic()
        async with client_of(server.connect + chroot, file=file, **LONG) as client:
            await client.store.create("/ids-1", b"new", ephemeral=True)
        return time.monotonic() - begun

    assert asyncio.run(run()) < LONG_MS / 1000 / 4, "the session of the killed process was waited out"


async def test_a_node_of_another_session_stays_until_that_ends(server: ZooKeeper, chroot: str) -> None:
    async with client_of(server.connect + chroot, **LONG) as client:
        killed = await open_client(server.connect + chroot, **{**LONG, "session_timeout_ms": 4_000})
        await killed.store.create("/ids-1", ephemeral=True)
        seen = asyncio.Event()
        assert await client.store.exists("/ids-1", lambda _event: seen.set()) is not None
        await killed.kill()
        async with asyncio.timeout(60):
            await seen.wait()
        await client.store.create("/ids-1", ephemeral=True)


async def test_the_session_file_is_its_owners_alone_and_goes_with_the_session(
    server: ZooKeeper, tmp_path: Path
) -> None:
    queue = OsDiskQueue(str(tmp_path), asyncio.get_running_loop())
    async with TaskScope("store") as tasks:
        store = await open_zookeeper_store(
            ZooKeeperOptions(ConnectString.parse(server.connect)),
            ClientDependencies(OsNetwork(), SystemClock(), random.Random(1), tasks),
            LogDirectorySessionFile(str(tmp_path), OsFileSystem(), queue),
        )
        file = tmp_path / FILE_NAME
        assert file_modes.S_IMODE(file.stat().st_mode) == 0o600
        assert f"{store.session().session_id:#x}" in file.read_text()
        await store.close()
        assert os.listdir(tmp_path) == []
        await queue.close()


async def test_a_server_that_stops_answering_is_noticed(server: ZooKeeper, chroot: str) -> None:
    async with client_of(server.connect + chroot, **{**LONG, "session_timeout_ms": 2_000}) as client:
        server.signal(signal.SIGSTOP)
        try:
            await client.hears(SessionEvent.SUSPENDED)
            await raises(ConnectionLossError, client.store.exists("/a"))
        finally:
            server.signal(signal.SIGCONT)
        await client.hears(SessionEvent.CONNECTED)
        while True:
            try:
                await client.store.create("/a")
                break
            except (ConnectionLossError, SessionExpiredError):
                await client.hears(SessionEvent.CONNECTED)


# --- what another client sees ---


def test_kazoo_sees_the_tree_that_we_wrote(server: ZooKeeper, chroot: str) -> None:
    async def run() -> list[Stat]:
        async with client_of(server.connect + chroot, **LONG) as client:
            store = client.store
            await store.create("/a", b"\xff\0")
            await store.set("/a", b"data")
            await store.create("/a/n_", sequential=True)
            stats = [await store.exists(path) for path in ("/a", "/a/n_0000000000")]
            return [stat for stat in stats if stat is not None]

    stats = asyncio.run(run())
    kazoo = KazooClient(hosts=server.connect + chroot)
    kazoo.start(timeout=60)
    try:
        data, known = kazoo.get("/a")
        acl, _ = kazoo.get_acls("/a")
        assert data == b"data"
        assert [(each.perms, each.id.scheme, each.id.id) for each in acl] == [(31, "world", "anyone")]
        own = stats[0]
        assert (own.czxid, own.mzxid, own.version, own.cversion) == (known.czxid, known.mzxid, 1, known.cversion)
        assert (own.ctime_ms, own.mtime_ms, own.num_children) == (known.ctime, known.mtime, 1)
        assert kazoo.get_children("/a") == ["n_0000000000"]
    finally:
        kazoo.stop()
        kazoo.close()


def test_stats_are_those_of_the_table(server: ZooKeeper) -> None:
    """That the tree is tested with. Both sessions begin before its first step, since each takes a zxid."""
    clients = {owner: KazooClient(hosts=server.connect) for owner in (1, ENDING)}
    for each in clients.values():
        each.start(timeout=60)
    kazoo, first_zxid = clients[1], 0
    try:
        for number, (step, parent, child, owner) in enumerate(CHANGES):
            if isinstance(step, End):
                clients[step.owner].stop()
            else:
                _transact(clients[owner], step)
            stats = [kazoo.exists(path) for path in ("/p", "/p/a")]
            first_zxid = first_zxid or stats[0].czxid
            found = [
                stat and Counts(
                    stat.czxid - first_zxid, stat.mzxid - first_zxid, stat.version, stat.cversion, stat.aversion,
                    stat.dataLength, stat.numChildren, stat.pzxid - first_zxid,
                )
                for stat in stats
            ]  # fmt: skip
            assert found == [parent, child], f"step {number}: {step}"
        assert kazoo.create("/p/n_", sequence=True) == NEXT_SEQUENTIAL
    finally:
        kazoo.delete("/p", recursive=True)
        for each in clients.values():
            each.stop()
            each.close()


def _transact(kazoo: KazooClient, operations: Transaction) -> None:
    """A single operation as a request of its own."""
    target = kazoo if len(operations) == 1 else kazoo.transaction()
    for operation in operations:
        match operation:
            case Create(path, data, is_ephemeral):
                target.create(path, data, ephemeral=is_ephemeral)
            case SetData(path, data, version):
                (kazoo.set if target is kazoo else target.set_data)(path, data, version)
            case Delete(path, version):
                target.delete(path, version)
            case Check(path, version):
                target.check(path, version)
            case SetAcl(path, acl, version):
                kazoo.set_acls(path, [ACL(each.permissions, Id(each.scheme, each.identity)) for each in acl], version)
    if target is not kazoo:
        assert not [result for result in target.commit() if isinstance(result, Exception)]


async def test_secure_nodes_have_kafkas_access_lists(server: ZooKeeper, chroot: str) -> None:
    options = {**LONG, "is_secure": True, "authentications": (("digest", b"broker:secret"),)}
    async with client_of(server.connect + chroot, **options) as client:
        for path in ("/config", "/config/users", "/brokers", "/consumers"):
            await client.store.create(path, b"x")
        assert (await client.store.get("/config/users"))[0] == b"x"
    async with client_of(server.connect, **LONG) as stranger:
        assert (await stranger.store.get(f"{chroot}/brokers"))[0] == b"x"
        for operation in (
            stranger.store.get(f"{chroot}/config/users"),
            stranger.store.set(f"{chroot}/brokers", b""),
            stranger.store.create(f"{chroot}/brokers/a"),
        ):
            with pytest.raises(StoreError, match=chroot):
                await operation
        await stranger.store.create(f"{chroot}/consumers/a")


# --- an ensemble ---


def test_an_ensemble_loses_its_leader_and_the_session_goes_on(tmp_path: Path) -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)

    async def run(ensemble: Ensemble) -> None:
        async with client_of(ensemble.connect, **LONG) as client:
            store, seen = client.store, Seen()
            own = store.session()
            await store.create("/e", b"1", ephemeral=True)
            await store.get("/e", seen)
            ensemble.leader.kill()
            is_set = False
            while not is_set:
                with suppress(ConnectionLossError):
                    await store.set("/e", b"2")
                with suppress(ConnectionLossError):
                    is_set = (await store.get("/e"))[0] == b"2"
            assert store.session() is own
            assert seen.events == [WatchEvent(WatchKind.CHANGED, "/e")]

    with Ensemble(tmp_path, 3) as ensemble:
        asyncio.run(run(ensemble))
