"""kazoo on the store server: its client, its recipes and its access lists."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.recipe.cache import TreeCache
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import Permissions, make_acl, make_digest_acl

from tests.oracle.store_server import StoreServerProcess

WAIT_S = 30


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServerProcess]:
    with StoreServerProcess() as server:
        yield server


@contextmanager
def client(server: StoreServerProcess, chroot: str = "", **options: Any) -> Iterator[KazooClient]:
    kazoo = KazooClient(hosts=server.connect + chroot, timeout=20, **options)
    kazoo.start(timeout=WAIT_S)
    try:
        yield kazoo
    finally:
        kazoo.stop()
        kazoo.close()


@contextmanager
def clients(server: StoreServerProcess, request: pytest.FixtureRequest) -> Iterator[tuple[KazooClient, KazooClient]]:
    chroot = f"/{request.node.name.replace('[', '-').replace(']', '')}"
    with client(server) as root:
        root.ensure_path(chroot)
    with client(server, chroot) as first, client(server, chroot) as second:
        yield first, second


@pytest.fixture
def pair(server: StoreServerProcess, request: pytest.FixtureRequest) -> Iterator[tuple[KazooClient, KazooClient]]:
    with clients(server, request) as both:
        yield both


class Told:
    """A callback that waits until it was told something."""

    def __init__(self, is_it: Callable[..., bool]) -> None:
        self.all: list[tuple[Any, ...]] = []
        self._is_it = is_it
        self._has_come = threading.Event()

    def __call__(self, *values: Any) -> None:
        self.all.append(values)
        if self._is_it(*values):
            self._has_come.set()

    def wait(self) -> None:
        assert self._has_come.wait(WAIT_S), self.all


Pair = tuple[KazooClient, KazooClient]


def test_nodes(pair: Pair) -> None:
    one, two = pair
    assert one.create("/a", b"1", ephemeral=True) == "/a"
    path, stat = one.create("/s-", b"xy", sequence=True, include_data=True)
    assert (path, stat.data_length, stat.version) == ("/s-0000000001", 2, 0)
    assert two.get_children("/", include_data=True)[0] == two.get_children("/")
    assert two.get("/a")[1].owner_session_id == one.client_id[0]
    with pytest.raises(NodeExistsError):
        two.create("/a")
    with pytest.raises(BadVersionError):
        two.set(path, b"", version=3)
    assert two.set(path, b"z").version == 1
    with pytest.raises(NoNodeError):
        two.delete("/none")
    two.delete(path)
    one.stop()
    assert two.exists("/a") is None


def test_transactions(pair: Pair) -> None:
    one, _ = pair
    good = one.transaction()
    good.create("/t", b"1")
    good.check("/t", 0)
    good.set_data("/t", b"2")
    results = good.commit()
    assert results[:2] == ["/t", True]
    assert results[2].version == 1
    bad = one.transaction()
    bad.create("/u")
    bad.check("/t", 9)
    bad.delete("/t")
    assert [type(result) for result in bad.commit()] == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert one.exists("/u") is None


def test_a_lock_goes_to_who_waits(pair: Pair) -> None:
    one, two = pair
    first, second = one.Lock("/lock", "one"), two.Lock("/lock", "two")
    assert first.acquire(timeout=WAIT_S)
    has_it = threading.Event()
    waiter = threading.Thread(target=lambda: second.acquire(timeout=WAIT_S) and has_it.set())
    waiter.start()
    while len(first.contenders()) < 2:
        threading.Event().wait(0.01)
    first.release()
    waiter.join(WAIT_S)
    assert has_it.is_set()
    assert not one.Lock("/lock").acquire(blocking=False)
    second.release()


def test_an_election_is_won_by_one(pair: Pair) -> None:
    one, _ = pair
    led: list[str] = []
    one.Election("/election", "one").run(lambda: led.append("one"))
    assert led == ["one"]


def test_counter_queues_and_party(pair: Pair) -> None:
    one, two = pair
    counters = [kazoo.Counter("/counter") for kazoo in pair]
    for _ in range(5):
        for counter in counters:
            counter += 1
    assert counters[0].value == 10
    for value in (b"1", b"2"):
        one.Queue("/queue").put(value)
    assert [two.Queue("/queue").get() for _ in range(3)] == [b"1", b"2", None]
    locking = one.LockingQueue("/locking")
    locking.put(b"x")
    assert locking.get(timeout=WAIT_S) == b"x"
    assert locking.consume()
    party = one.Party("/party", "one")
    party.join()
    assert list(two.Party("/party")) == ["one"]
    party.leave()
    semaphores = [kazoo.Semaphore("/semaphore", max_leases=1) for kazoo in pair]
    assert semaphores[0].acquire(timeout=WAIT_S)
    assert not semaphores[1].acquire(blocking=False)
    semaphores[0].release()


def test_barriers(pair: Pair) -> None:
    one, two = pair
    barrier = one.Barrier("/barrier")
    barrier.create()
    has_passed = threading.Event()
    waiter = threading.Thread(target=lambda: two.Barrier("/barrier").wait(WAIT_S) and has_passed.set())
    waiter.start()
    barrier.remove()
    waiter.join(WAIT_S)
    assert has_passed.is_set()
    doubles = [kazoo.DoubleBarrier("/double", 2) for kazoo in pair]
    for step in ("enter", "leave"):
        threads = [threading.Thread(target=getattr(double, step)) for double in doubles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_watches(pair: Pair) -> None:
    one, two = pair
    data, names = Told(lambda value, _stat: value == b"2"), Told(lambda names: names == ["child"])
    one.create("/w", b"1")
    DataWatch(two, "/w", data)
    ChildrenWatch(two, "/w", names)
    one.set("/w", b"2")
    one.create("/w/child")
    data.wait()
    names.wait()


def test_a_tree_cache_follows(pair: Pair) -> None:
    one, two = pair
    one.create("/tree/a/b", b"1", makepath=True)
    is_there = Told(lambda event: event.event_data is not None and event.event_data.data == b"2")
    cache = TreeCache(two, "/tree")
    cache.listen(is_there)
    cache.start()
    one.set("/tree/a/b", b"2")
    is_there.wait()
    cache.close()


def test_access_lists(server: StoreServerProcess, pair: Pair) -> None:
    one, two = pair
    owner = make_digest_acl("me", "secret", all=True)
    one.add_auth("digest", "me:secret")
    one.create("/mine", b"1", acl=[owner])
    with pytest.raises(NoAuthError):
        two.get("/mine")
    with pytest.raises(NoAuthError):
        two.create("/mine/child")
    two.add_auth("digest", "me:secret")
    assert two.get("/mine")[0] == b"1"
    assert one.set_acls("/mine", [owner, make_acl("ip", "127.0.0.0/8", read=True)]).acl_version == 1
    assert [acl.perms for acl in one.get_acls("/mine")[0]] == [Permissions.ALL, Permissions.READ]
    with pytest.raises(InvalidACLError):
        two.create("/none", acl=[make_acl("unheard", "of", all=True)])
    with pytest.raises(AuthFailedError):
        two.add_auth("unheard", "of")


def test_a_session_outlives_the_server(server: StoreServerProcess, pair: Pair) -> None:
    """Killed and started again within its timeout: the session and its ephemeral node go on."""
    one, two = pair
    one.create("/e", b"", ephemeral=True)
    before = one.client_id
    server.kill()
    server.start()
    assert one.retry(one.exists, "/e").owner_session_id == before[0]
    assert one.client_id == before
    one.stop()
    assert two.retry(two.exists, "/e") is None
