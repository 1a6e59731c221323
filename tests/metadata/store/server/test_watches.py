"""Whom a change concerns. What clients see of it is compared with ZooKeeper in tests/differential/store."""

from __future__ import annotations

from metadata.store.port import WatchEvent, WatchKind
from metadata.store.server.watches import WatcherType, WatchRegistry

CREATED, CHANGED, DELETED, CHILDREN = WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED, WatchKind.CHILDREN


def taken(registry: WatchRegistry[str], kind: WatchKind, path: str) -> list[str]:
    return sorted(registry.take(WatchEvent(kind, path)))


def test_each_kind_hears_of_its_changes_once_and_the_others_always() -> None:
    registry = WatchRegistry[str]()
    registry.add_data("/a", "data")
    registry.add_children("/a", "children")
    registry.add_persistent("/a", "persistent", is_recursive=False)
    registry.add_persistent("/a", "recursive", is_recursive=True)
    assert taken(registry, CHANGED, "/a") == ["data", "persistent", "recursive"]
    assert taken(registry, CHANGED, "/a") == ["persistent", "recursive"]
    assert taken(registry, CHILDREN, "/a") == ["children", "persistent"]
    assert taken(registry, CHILDREN, "/a") == ["persistent"]
    assert taken(registry, CREATED, "/a/b/c") == ["recursive"]
    assert taken(registry, CREATED, "/ab") == []
    registry.add_data("/a", "both")
    registry.add_children("/a", "both")
    assert taken(registry, DELETED, "/a") == ["both", "persistent", "recursive"]
    assert len(registry) == 2


def test_a_watch_of_the_root_is_above_everything() -> None:
    registry = WatchRegistry[str]()
    registry.add_persistent("/", "all", is_recursive=True)
    assert taken(registry, CHANGED, "/a/b") == taken(registry, CHANGED, "/") == ["all"]


def test_who_leaves_leaves_nothing() -> None:
    registry = WatchRegistry[str]()
    for path in ("/a", "/b"):
        for connection in ("one", "two"):
            registry.add_data(path, connection)
            registry.add_children(path, connection)
            registry.add_persistent(path, connection, is_recursive=path == "/a")
    assert (len(registry), registry.count_of("one")) == (12, 6)
    registry.forget("one")
    assert (len(registry), registry.count_of("one")) == (6, 0)
    registry.forget("one")
    assert taken(registry, CHANGED, "/a") == ["two"]
    assert registry.has("/b", WatcherType.ANY, "two")
    assert registry.remove("/b", WatcherType.ANY, "two")
    assert not registry.remove("/b", WatcherType.ANY, "two")
    registry.forget("two")
    assert len(registry) == 0
