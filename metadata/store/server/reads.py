"""What clients ask without changing the tree: reads, their watches, and the watches by themselves. Pure.

Rules: pure. Reads see what is applied. Reading a node needs the right to read it. A watch is set when the read succeeds, and on
a missing node by `exists` alone; multiRead sets none. Watches that a client sets again after a loss of its connection are
triggered at once where their node has changed since the transaction that the client saw last.
Source: ZooKeeper FinalRequestProcessor, DataTree.setWatches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from metadata.store.node_acls import permits
from metadata.store.node_map import Node
from metadata.store.node_tree import NodeTree
from metadata.store.port import AccessDeniedError, NoNodeError, Permission, StoreError, WatchEvent, WatchKind
from metadata.store.server import replies
from metadata.store.server.authentication import Identity, hidden_digests, user_names
from metadata.store.server.client import Client
from metadata.store.server.requests import read_multi_read
from metadata.store.server.watches import WatcherType, WatchRegistry
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.wire import OpCode, Reader, ReplyCode
from protocol.primitives import DecodeError

E = TypeVar("E", bound=IntEnum)

_NO_ERROR = wire.int32(0)


class NoWatchError(Exception):
    """The client has no such watch."""


class AddWatchMode(IntEnum):
    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks. `identities` are those at the time of the request."""

    client: Client
    identities: tuple[Identity, ...]


class Reads:
    def __init__(self, tree: NodeTree, watches: WatchRegistry[Client]) -> None:
        self._tree = tree
        self._watches = watches

    def answer(self, code: OpCode, reader: Reader, asker: Asker) -> tuple[int, bytes]:
        """Return the code of a reply and its body. `reader` is behind the header of the request."""
        try:
            return ReplyCode.OK, self._answer(code, reader, asker)
        except StoreError as error:
            return replies.code_of(error), b""
        except NoWatchError:
            return ReplyCode.NO_WATCHER, b""
        except DecodeError:
            return ReplyCode.MARSHALLING_ERROR, b""

    def _answer(self, code: OpCode, reader: Reader, asker: Asker) -> bytes:
        match code:
            case OpCode.PING:
                return b""
            case OpCode.SYNC:
                return wire.text(reader.text())
            case OpCode.EXISTS:
                return self._exists(reader.text(), asker, is_watched=reader.boolean())
            case OpCode.GET_DATA:
                return self._data(reader.text(), asker, is_watched=reader.boolean())
            case OpCode.GET_CHILDREN:
                return self._children(reader.text(), asker, is_watched=reader.boolean())[0]
            case OpCode.GET_CHILDREN2:
                names, node = self._children(reader.text(), asker, is_watched=reader.boolean())
                return names + replies.stat_body(node.stat)
            case OpCode.GET_ACL:
                return self._acl(reader.text(), asker)
            case OpCode.GET_ALL_CHILDREN_NUMBER:
                path = reader.text()
                self._readable(path, asker)
                return wire.int32(self._below_count(path))
            case OpCode.GET_EPHEMERALS:
                return self._ephemerals(reader.text(), asker)
            case OpCode.WHO_AM_I:
                return replies.identities_body(user_names(asker.identities))
            case OpCode.MULTI_READ:
                return self._multi_read(reader, asker)
        return self._watch_request(code, reader, asker)

    def _watch_request(self, code: OpCode, reader: Reader, asker: Asker) -> bytes:
        match code:
            case OpCode.SET_WATCHES | OpCode.SET_WATCHES2:
                self._set_watches(code, reader, asker)
                return b""
            case OpCode.ADD_WATCH:
                path, mode = reader.text(), _member(AddWatchMode, reader.int32())
                is_recursive = mode is AddWatchMode.PERSISTENT_RECURSIVE
                self._watches.add_persistent(path, asker.client, is_recursive=is_recursive)
                return _NO_ERROR
            case OpCode.CHECK_WATCHES:
                path, kind = reader.text(), _member(WatcherType, reader.int32())
                if not self._watches.has(path, kind, asker.client):
                    raise NoWatchError
                return b""
            case OpCode.REMOVE_WATCHES:
                path, kind = reader.text(), _member(WatcherType, reader.int32())
                if not self._watches.remove(path, kind, asker.client):
                    raise NoWatchError
                return b""
        raise AssertionError(f"{code} is no read")

    # --- nodes ---

    def _readable(self, path: str, asker: Asker) -> Node:
        node = self._tree.node(path)
        if not permits(node.acl, Permission.READ, frozenset(asker.identities)):
            raise AccessDeniedError(path)
        return node

    def _exists(self, path: str, asker: Asker, *, is_watched: bool) -> bytes:
        node = self._tree.nodes.find(path)
        if node is not None:
            self._readable(path, asker)
        if is_watched:
            self._watches.add_data(path, asker.client)
        if node is None:
            raise NoNodeError(path)
        return replies.stat_body(node.stat)

    def _data(self, path: str, asker: Asker, *, is_watched: bool) -> bytes:
        node = self._readable(path, asker)
        if is_watched:
            self._watches.add_data(path, asker.client)
        return wire.opaque(node.data) + replies.stat_body(node.stat)

    def _children(self, path: str, asker: Asker, *, is_watched: bool) -> tuple[bytes, Node]:
        node = self._readable(path, asker)
        if is_watched:
            self._watches.add_children(path, asker.client)
        return wire.texts(list(self._tree.nodes.names(path))), node

    def _acl(self, path: str, asker: Asker) -> bytes:
        """Who may read the node or change its list sees it; without the latter right no passwords."""
        node, identities = self._tree.node(path), frozenset(asker.identities)
        may_change = permits(node.acl, Permission.ADMIN, identities)
        if not may_change and not permits(node.acl, Permission.READ, identities):
            raise AccessDeniedError(path)
        return replies.acl_body(node.acl if may_change else hidden_digests(node.acl), node.stat)

    def _below_count(self, path: str) -> int:
        if path == "/":
            return len(self._tree.nodes) - 1
        count, waiting = 0, [path]
        while waiting:
            above = waiting.pop()
            names = list(self._tree.nodes.names(above))
            count += len(names)
            waiting += [f"{above}/{name}" for name in names]
        return count

    def _ephemerals(self, prefix: str, asker: Asker) -> bytes:
        own = self._tree.ephemerals_of(asker.client.session_id)
        is_any = not prefix.strip() or prefix.strip() == "/"
        return wire.texts([path for path in own if is_any or path.startswith(prefix)])

    def _multi_read(self, reader: Reader, asker: Asker) -> bytes:
        parts: list[bytes] = []
        for code, path in read_multi_read(reader):
            try:
                if code is OpCode.GET_DATA:
                    parts.append(replies.multi_part(code, self._data(path, asker, is_watched=False)))
                else:
                    parts.append(replies.multi_part(code, self._children(path, asker, is_watched=False)[0]))
            except StoreError as error:
                parts.append(replies.multi_error(replies.code_of(error)))
        return replies.multi_body(parts)

    # --- watches that a client sets again ---

    def _set_watches(self, code: OpCode, reader: Reader, asker: Asker) -> None:
        since = reader.int64()
        data, missing, children = reader.texts(), reader.texts(), reader.texts()
        persistent, recursive = (reader.texts(), reader.texts()) if code is OpCode.SET_WATCHES2 else ([], [])
        client, find = asker.client, self._tree.nodes.find
        for path in data:
            node = find(path)
            if node is None:
                client.tell(WatchEvent(WatchKind.DELETED, path))
            elif node.mzxid > since:
                client.tell(WatchEvent(WatchKind.CHANGED, path))
            else:
                self._watches.add_data(path, client)
        for path in missing:
            if find(path) is not None:
                client.tell(WatchEvent(WatchKind.CREATED, path))
            else:
                self._watches.add_data(path, client)
        for path in children:
            node = find(path)
            if node is None:
                client.tell(WatchEvent(WatchKind.DELETED, path))
            elif node.pzxid > since:
                client.tell(WatchEvent(WatchKind.CHILDREN, path))
            else:
                self._watches.add_children(path, client)
        self._add_persistent(persistent, recursive, client)

    def _add_persistent(self, persistent: Iterable[str], recursive: Iterable[str], client: Client) -> None:
        for path in persistent:
            self._watches.add_persistent(path, client, is_recursive=False)
        for path in recursive:
            self._watches.add_persistent(path, client, is_recursive=True)


def _member(kind: type[E], value: int) -> E:
    """Raises DecodeError."""
    try:
        return kind(value)
    except ValueError as error:
        raise DecodeError(f"{value} is no {kind.__name__}") from error
