"""What every store adapter must do: one suite, run over each of them by `test_store.py`.

Each case is an async function of one fresh store. `CASES` lists them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from metadata.store.port import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SetData,
    Stat,
    Store,
    StoreError,
    WatchEvent,
    WatchKind,
    ensure_path,
)

Case = Callable[[Store], Awaitable[None]]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


async def raises(error: type[StoreError], operation: Awaitable[object]) -> StoreError:
    with pytest.raises(error) as raised:
        await operation
    return raised.value


class Seen:
    """A watch that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)


async def settle(store: Store) -> None:
    """Everything decided before has been told: watches and replies share one order."""
    await store.sync("/")


@case
async def a_created_node_is_read_back(store: Store) -> None:
    assert await store.create("/a", b"one") == "/a"
    data, stat = await store.get("/a")
    assert data == b"one"
    assert (stat.version, stat.cversion, stat.num_children, stat.ephemeral_owner) == (0, 0, 0, 0)
    assert stat.czxid == stat.mzxid > 0
    assert stat.ctime_ms == stat.mtime_ms > 0


@case
async def creating_needs_a_parent_and_a_free_name(store: Store) -> None:
    await raises(NoNodeError, store.create("/a/b"))
    await store.create("/a")
    await raises(NodeExistsError, store.create("/a"))


@case
async def setting_raises_the_version_and_keeps_the_czxid(store: Store) -> None:
    await store.create("/a", b"one")
    _, before = await store.get("/a")
    stat = await store.set("/a", b"two", 0)
    assert stat.version == 1
    assert stat.czxid == before.czxid
    assert stat.mzxid > before.mzxid
    assert await store.get("/a") == (b"two", stat)


@case
async def a_wrong_version_changes_nothing(store: Store) -> None:
    await store.create("/a", b"one")
    await raises(BadVersionError, store.set("/a", b"two", 3))
    await raises(BadVersionError, store.delete("/a", 3))
    assert (await store.get("/a"))[0] == b"one"


@case
async def missing_nodes_are_told(store: Store) -> None:
    await raises(NoNodeError, store.get("/a"))
    await raises(NoNodeError, store.set("/a", b""))
    await raises(NoNodeError, store.delete("/a"))
    await raises(NoNodeError, store.children("/a"))
    assert await store.exists("/a") is None


@case
async def a_node_with_children_is_not_deleted(store: Store) -> None:
    await store.create("/a")
    await store.create("/a/b")
    await raises(NotEmptyError, store.delete("/a"))
    await store.delete("/a/b")
    await store.delete("/a")
    assert await store.exists("/a") is None


@case
async def children_are_sorted_names(store: Store) -> None:
    await store.create("/a")
    for name in ("c", "a", "b"):
        await store.create(f"/a/{name}")
    await store.create("/a/b/below")
    assert await store.children("/a") == ["a", "b", "c"]
    stat = await store.exists("/a")
    assert stat is not None
    assert (stat.num_children, stat.cversion) == (3, 3)
    await store.delete("/a/a")
    stat = await store.exists("/a")
    assert stat is not None
    assert (stat.num_children, stat.cversion) == (2, 4)


@case
async def sequential_names_count_upwards_and_never_repeat(store: Store) -> None:
    await store.create("/q")
    assert await store.create("/q/n_", sequential=True) == "/q/n_0000000000"
    assert await store.create("/q/n_", sequential=True) == "/q/n_0000000001"
    await store.delete("/q/n_0000000001")
    assert await store.create("/q/n_", sequential=True) == "/q/n_0000000002"


@case
async def ephemeral_nodes_know_their_session_and_have_no_children(store: Store) -> None:
    await store.create("/e", ephemeral=True)
    stat = await store.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == store.session().session_id != 0
    await raises(NoChildrenForEphemeralsError, store.create("/e/below"))


@case
async def a_multi_does_everything_or_nothing(store: Store) -> None:
    await store.create("/a", b"one")
    results = await store.multi([Check("/a", 0), Create("/a/b"), SetData("/a", b"two", 0), Create("/c")])
    assert results[:2] == [None, "/a/b"]
    assert isinstance(results[2], Stat)
    assert results[2].version == 1
    error = await raises(BadVersionError, store.multi([Delete("/c"), Check("/a", 0), Delete("/a/b")]))
    assert error.operation_index == 1
    assert await store.exists("/c") is not None
    assert await store.exists("/a/b") is not None


@case
async def a_multi_sees_its_own_earlier_operations(store: Store) -> None:
    await store.multi([Create("/a"), Create("/a/b"), Delete("/a/b"), Delete("/a"), Create("/a", b"again")])
    assert (await store.get("/a"))[0] == b"again"
    assert await store.children("/a") == []


@case
async def writes_in_flight_build_upon_each_other(store: Store) -> None:
    first, second, third = await asyncio.gather(
        store.create("/a", b"one"), store.set("/a", b"two", 0), store.set("/a", b"three", 1)
    )
    assert first == "/a"
    assert (second.version, third.version) == (1, 2)
    assert (await store.get("/a"))[0] == b"three"


@case
async def pipelined_transactions_are_refused_one_by_one(store: Store) -> None:
    outcomes = await store.write_many([[Create("/a")], [Create("/a")], [Create("/a/b")], [Delete("/missing")]])
    assert outcomes[0] == ["/a"]
    assert isinstance(outcomes[1], NodeExistsError)
    assert outcomes[2] == ["/a/b"]
    assert isinstance(outcomes[3], NoNodeError)


@case
async def pipelined_reads_tell_missing_nodes_as_none(store: Store) -> None:
    await store.create("/a", b"one")
    found = await store.read_many(["/missing", "/a"])
    assert found[0] is None
    assert found[1] is not None
    assert found[1][0] == b"one"


@case
async def a_data_watch_tells_one_change(store: Store) -> None:
    await store.create("/a")
    seen = Seen()
    await store.get("/a", seen)
    await store.set("/a", b"one")
    await store.set("/a", b"two")
    await settle(store)
    assert seen.events == [WatchEvent(WatchKind.CHANGED, "/a")]


@case
async def a_deletion_ends_data_and_child_watches(store: Store) -> None:
    await store.create("/a")
    seen = Seen()
    await store.get("/a", seen)
    await store.children("/a", seen)
    await store.delete("/a")
    await settle(store)
    assert seen.events == [WatchEvent(WatchKind.DELETED, "/a")] * 2


@case
async def an_exists_watch_waits_for_the_node(store: Store) -> None:
    seen = Seen()
    assert await store.exists("/a", seen) is None
    await store.create("/a")
    await settle(store)
    assert seen.events == [WatchEvent(WatchKind.CREATED, "/a")]


@case
async def a_child_watch_tells_creation_and_deletion_but_no_data(store: Store) -> None:
    await store.create("/a")
    seen = Seen()
    await store.children("/a", seen)
    await store.set("/a", b"data")
    await settle(store)
    assert seen.events == []
    await store.create("/a/b")
    await settle(store)
    assert seen.events == [WatchEvent(WatchKind.CHILDREN, "/a")]
    await store.children("/a", seen)
    await store.delete("/a/b")
    await settle(store)
    assert seen.events == [WatchEvent(WatchKind.CHILDREN, "/a")] * 2


@case
async def a_failed_read_leaves_no_watch(store: Store) -> None:
    seen = Seen()
    await raises(NoNodeError, store.get("/a", seen))
    await raises(NoNodeError, store.children("/a", seen))
    await store.read_many(["/a"], seen)
    await store.create("/a")
    await store.set("/a", b"")
    await settle(store)
    assert seen.events == []


@case
async def a_refused_transaction_sets_off_no_watch(store: Store) -> None:
    await store.create("/a")
    seen = Seen()
    await store.get("/a", seen)
    await raises(NoNodeError, store.multi([SetData("/a", b"x"), Delete("/missing")]))
    await settle(store)
    assert seen.events == []


@case
async def a_watch_is_told_before_the_answer_that_shows_the_change(store: Store) -> None:
    await store.create("/a")
    seen = Seen()
    await store.get("/a", seen)
    await store.set("/a", b"one")
    assert seen.events == [WatchEvent(WatchKind.CHANGED, "/a")]


@case
async def zxids_grow_with_every_write(store: Store) -> None:
    await store.create("/a")
    first = await store.set("/a", b"1")
    await store.create("/b")
    second = await store.set("/a", b"2")
    assert second.mzxid > first.mzxid + 1
    stat = await store.exists("/b")
    assert stat is not None
    assert first.mzxid < stat.czxid < second.mzxid


@case
async def ensure_path_makes_what_is_missing(store: Store) -> None:
    await ensure_path(store, "/a/b/c")
    await ensure_path(store, "/a/b/d")
    assert await store.children("/a/b") == ["c", "d"]


@case
async def a_closed_store_refuses_everything(store: Store) -> None:
    await store.create("/a")
    await store.close()
    await raises(SessionExpiredError, store.get("/a"))
    await raises(SessionExpiredError, store.create("/b"))
    await raises(SessionExpiredError, store.sync("/"))
