"""The watches of all connections of a server, by path. Pure.

    data       on a node's data and on its creation: one-shot
    children   on its children: one-shot
    persistent on both, until it is removed
    recursive  on the data, creation and deletion of a node and of all below it, until it is removed

Rules: pure. A connection has one watch of a kind on a path, however often it sets it, and hears of one change once. A recursive
watch does not hear that children have changed: it hears of the children themselves.
Source: ZooKeeper WatchManager, DataTree; AddWatchMode. One path may have a one-shot and a persistent watch of the same
connection, as from ZooKeeper 3.9 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Generic, TypeVar

from metadata.store.port import WatchEvent, WatchKind, parent_of

C = TypeVar("C")


class WatcherType(IntEnum):
    """What checkWatches and removeWatches name."""

    CHILDREN = 1
    DATA = 2
    ANY = 3


class WatchRegistry(Generic[C]):
    """`C` is a connection: hashable by identity."""

    def __init__(self) -> None:
        self._data: dict[str, dict[C, None]] = {}
        self._children: dict[str, dict[C, None]] = {}
        self._persistent: dict[str, dict[C, None]] = {}
        self._recursive: dict[str, dict[C, None]] = {}
        self._paths: dict[C, dict[tuple[int, str], None]] = {}
        self._tables = (self._data, self._children, self._persistent, self._recursive)

    def __len__(self) -> int:
        return sum(map(len, self._paths.values()))

    def count_of(self, connection: C) -> int:
        return len(self._paths.get(connection, ()))

    def _add(self, number: int, path: str, connection: C) -> None:
        self._tables[number].setdefault(path, {})[connection] = None
        self._paths.setdefault(connection, {})[number, path] = None

    def _discard(self, number: int, path: str, connection: C) -> bool:
        table = self._tables[number]
        watchers = table.get(path)
        if watchers is None or connection not in watchers:
            return False
        del watchers[connection]
        if not watchers:
            del table[path]
        paths = self._paths[connection]
        del paths[number, path]
        if not paths:
            del self._paths[connection]
        return True

    def add_data(self, path: str, connection: C) -> None:
        self._add(0, path, connection)

    def add_children(self, path: str, connection: C) -> None:
        self._add(1, path, connection)

    def add_persistent(self, path: str, connection: C, *, is_recursive: bool) -> None:
        """The last one decides whether it is recursive."""
        self._discard(2 if is_recursive else 3, path, connection)
        self._add(3 if is_recursive else 2, path, connection)

    def has(self, path: str, kind: WatcherType, connection: C) -> bool:
        tables = self._tables_of(kind)
        return any(connection in self._tables[number].get(path, ()) for number in tables)

    def remove(self, path: str, kind: WatcherType, connection: C) -> bool:
        """Return whether there was one. A persistent watch on data and children goes as a whole."""
        removed = [self._discard(number, path, connection) for number in self._tables_of(kind)]
        return any(removed)

    @staticmethod
    def _tables_of(kind: WatcherType) -> tuple[int, ...]:
        match kind:
            case WatcherType.CHILDREN:
                return (1, 2, 3)
            case WatcherType.DATA:
                return (0, 2, 3)
            case WatcherType.ANY:
                return (0, 1, 2, 3)

    def forget(self, connection: C) -> None:
        """Remove all watches of a connection, which is closed."""
        for number, path in list(self._paths.get(connection, ())):
            self._discard(number, path, connection)

    def take(self, event: WatchEvent) -> list[C]:
        """Return whom a change concerns, each once, and remove the one-shot watches that it triggers."""
        path, taken = event.path, dict[C, None]()
        if event.kind is WatchKind.CHILDREN:
            self._take(1, path, taken)
        else:
            self._take(0, path, taken)
            if event.kind is WatchKind.DELETED:
                self._take(1, path, taken)
            if self._recursive:
                for each in _upwards(path):
                    taken.update(self._recursive.get(each, ()))
        taken.update(self._persistent.get(path, ()))
        return list(taken)

    def _take(self, number: int, path: str, taken: dict[C, None]) -> None:
        watchers = self._tables[number].get(path)
        if watchers:
            for connection in list(watchers):
                self._discard(number, path, connection)
                taken[connection] = None


def _upwards(path: str) -> Iterator[str]:
    yield path
    while path != "/":
        path = parent_of(path)
        yield path
