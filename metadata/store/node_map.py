"""The nodes of a tree by path: a mapping that keeps them in a hierarchy, as lean as ten thousand partitions ask for.
Pure.

Rules: pure. A path's names are kept once, in the node above; paths are joined in a walk over all of them.
Nodes are values: what `find` gives stays as it was.
Invariants: every node's parent is here before it; `ephemerals` holds exactly the ephemeral nodes.

A partition is two nodes of one transaction, of which the upper one never says anything: /brokers/topics/T/partitions/P
and the "state" below it. They are kept as one `_Pair`, and what pairs that were made together have in common is kept once.
Whatever does not fit (a second child, data in the upper one) is kept as nodes, in a `_Folder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from metadata.store.node_acls import decoded, encoded
from metadata.store.port import NOT_EPHEMERAL, OPEN_ACL, Acl, Stat

SHARED_MAX = 128  # nodes that are alike come one after the other


class Node(NamedTuple):
    """A value. A tuple, since each transaction makes some."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = NOT_EPHEMERAL
    children_created: int = 0
    num_children: int = 0
    pzxid: int = 0
    aversion: int = 0
    acl: tuple[Acl, ...] = OPEN_ACL

    def with_data(self, data: bytes, zxid: int, now_ms: int) -> Node:
        return Node(
            data, self.version + 1, self.czxid, zxid, self.ctime_ms, now_ms, self.ephemeral_owner,
            self.children_created, self.num_children, self.pzxid, self.aversion, self.acl,
        )  # fmt: skip

    def with_children(self, created: int, num_children: int, zxid: int) -> Node:
        """The children changed: so many were created more, and so many are there."""
        return Node(
            self.data, self.version, self.czxid, self.mzxid, self.ctime_ms, self.mtime_ms, self.ephemeral_owner,
            self.children_created + created, num_children, zxid, self.aversion, self.acl,
        )  # fmt: skip

    @property
    def stat(self) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            2 * self.children_created - self.num_children,
            self.aversion,
            self.ephemeral_owner,
            len(self.data),
            self.num_children,
            self.pzxid,
        )


ROOT = Node(data=b"", version=0, czxid=0, mzxid=0, ctime_ms=0, mtime_ms=0)


@dataclass(slots=True)
class _Folder:
    """A node with children."""

    node: Node
    children: dict[str, _Entry]


_Said = tuple[str, bytes, int, int, int, str | None]


@dataclass(frozen=True, slots=True)
class _Pair:
    """An empty node that was never set, and its only child, a leaf made in the same transaction, with one access list that
    was never set. `said` is the child's name, data, version, ctime, mtime, and the list as text: a tuple of such values costs
    the garbage collector nothing."""

    said: _Said
    czxid: int
    mzxid: int

    @property
    def name(self) -> str:
        return self.said[0]

    @property
    def upper(self) -> Node:
        _, _, _, ctime_ms, _, acl = self.said
        czxid = self.czxid
        return Node(b"", 0, czxid, czxid, ctime_ms, ctime_ms, NOT_EPHEMERAL, 1, 1, czxid, 0, decoded(acl))

    @property
    def lower(self) -> Node:
        _, data, version, ctime_ms, mtime_ms, acl = self.said
        return Node(
            data, version, self.czxid, self.mzxid, ctime_ms, mtime_ms, NOT_EPHEMERAL, 0, 0, self.czxid, 0, decoded(acl)
        )


_Entry = Node | _Folder | _Pair


@lru_cache(maxsize=SHARED_MAX)
def _shared(said: _Said) -> _Said:
    return said


def _pair(upper: Node, name: str, lower: Node) -> _Pair | None:
    """None when they are not of that kind."""
    czxid, ctime_ms = lower.czxid, lower.ctime_ms
    if (
        upper != (b"", 0, czxid, czxid, ctime_ms, ctime_ms, NOT_EPHEMERAL, 1, 1, czxid, 0, lower.acl)
        or lower[6:11] != (NOT_EPHEMERAL, 0, 0, czxid, 0)  # its owner to its aversion
    ):
        return None
    mzxid = czxid if lower.mzxid == czxid else lower.mzxid  # one number where there are two
    said = (intern(name), lower.data, lower.version, ctime_ms, lower.mtime_ms, encoded(lower.acl))
    return _Pair(_shared(said), czxid, mzxid)


def _node_of(entry: _Entry) -> Node:
    match entry:
        case _Folder(node):
            return node
        case _Pair():
            return entry.upper
        case _:
            return entry


class Nodes(Mapping[str, Node]):
    """Changed by `put` and `remove` only."""

    def __init__(self) -> None:
        self._root = _Folder(ROOT, {})
        self._count = 1
        self.ephemerals: dict[str, int] = {}
        """The owners, by path."""

    # Reads.

    def find(self, path: str) -> Node | None:
        entry = self._find(path)
        return None if entry is None else _node_of(entry)

    def names(self, path: str) -> Iterable[str]:
        """Of the children, in no order."""
        match self._find(path):
            case _Folder(_, children):
                return children
            case _Pair() as pair:
                return (pair.name,)
            case _:
                return ()

    def __getitem__(self, path: str) -> Node:
        found = self.find(path)
        if found is None:
            raise KeyError(path)
        return found

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._find(path) is not None

    def __iter__(self) -> Iterator[str]:
        yield "/"
        yield from _paths("", self._root)

    def __len__(self) -> int:
        return self._count

    def _find(self, path: str) -> _Entry | None:
        first, *names = path.split("/")
        if first or not names:
            return None
        entry: _Entry | None = self._root
        for name in names if path != "/" else ():
            if isinstance(entry, _Folder):
                entry = entry.children.get(name)
            elif isinstance(entry, _Pair) and entry.name == name:
                entry = entry.lower
            else:
                return None
        return entry

    # Writes.

    def put(self, path: str, node: Node) -> None:
        """A new node, or another in the place of one; its children stay."""
        if node.ephemeral_owner != NOT_EPHEMERAL:
            self.ephemerals[path] = node.ephemeral_owner
        else:
            self.ephemerals.pop(path, None)
        if path == "/":
            self._root.node = node
            return
        *above, parent, name = path.split("/")
        if not above:  # a child of the root: the name before the first slash is its own
            self._put_in(self._root, name, node)
            return
        folder = self._root
        for each in above[1:]:
            below = folder.children[each]
            folder = below if isinstance(below, _Folder) else _opened(folder, each)
        held = folder.children[parent]
        if isinstance(held, Node) or (isinstance(held, _Pair) and held.name == name):
            pair = _pair(_node_of(held), name, node)
            if pair is not None:
                self._count += isinstance(held, Node)
                folder.children[parent] = pair
                return
        self._put_in(_opened(folder, parent), name, node)

    def _put_in(self, folder: _Folder, name: str, node: Node) -> None:
        match folder.children.get(name):
            case None:
                folder.children[intern(name)] = node
                self._count += 1
            case Node():
                folder.children[name] = node
            case _Pair() as pair if pair.upper == node:
                return
            case _:
                _opened(folder, name).node = node

    def remove(self, path: str) -> None:
        """Nothing happens for a node that is not here: it may have been removed with its parent."""
        self.ephemerals.pop(path, None)
        above, _, name = path.rpartition("/")
        entry = self._find(above or "/")
        if isinstance(entry, _Pair) and entry.name == name:
            self._count -= 1
            self._replace(above, entry.upper)
        elif isinstance(entry, _Folder) and name in entry.children:
            self._count -= _size(entry.children.pop(name))
            if not entry.children and above:
                self._replace(above, entry.node)

    def _replace(self, path: str, entry: _Entry) -> None:
        above, _, name = path.rpartition("/")
        folder = self._find(above or "/")
        assert isinstance(folder, _Folder), "only a leaf is below a pair"
        folder.children[name] = entry


def _opened(folder: _Folder, name: str) -> _Folder:
    """The child `name` as a folder, which it is from now on."""
    match folder.children[name]:
        case _Folder() as found:
            return found
        case _Pair() as pair:
            opened = _Folder(pair.upper, {pair.name: pair.lower})
        case Node() as node:
            opened = _Folder(node, {})
    folder.children[name] = opened
    return opened


def _size(entry: _Entry) -> int:
    match entry:
        case _Folder(_, children):
            return 1 + sum(map(_size, children.values()))
        case _Pair():
            return 2
        case _:
            return 1


def _paths(path: str, folder: _Folder) -> Iterator[str]:
    """Of what is below."""
    for name, entry in folder.children.items():
        below = f"{path}/{name}"
        yield below
        if isinstance(entry, _Folder):
            yield from _paths(below, entry)
        elif isinstance(entry, _Pair):
            yield f"{below}/{entry.name}"
