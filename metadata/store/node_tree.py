"""The tree: the effects of transactions on it, and the watches that they trigger. Pure.

Shared by the committed tree (which commits the changes before it applies them) and the simulated ensemble.

Rules: `stage` and its neighbours check a transaction against the tree after all staged transactions, and change nothing.
`apply` makes staged changes visible, in the order of staging. A failed transaction has no effect.
A transaction with `identities` is checked against the access lists of the nodes that it touches; without, it is made in this
process, and may everything. Opening and closing a session are transactions; closing one deletes its ephemeral nodes.
Invariants: a node's parent exists; an ephemeral node has no children; zxids increase.
Source: ZooKeeper DataTree, PrepRequestProcessor. A sequence number counts the children ever created under the parent;
the reported cversion counts creations and deletions. Unlike ZooKeeper's, a transaction that fails takes no zxid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metadata.store.node_acls import Identities, decoded, encoded, permits
from metadata.store.node_map import Node, Nodes
from metadata.store.node_paths import is_path
from metadata.store.port import (
    ANY_VERSION,
    NOT_EPHEMERAL,
    AccessDeniedError,
    Acl,
    BadVersionError,
    Check,
    Create,
    Delete,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    OperationResult,
    Permission,
    RefusedError,
    SetAcl,
    SetData,
    StoreError,
    Transaction,
    Watch,
    WatchEvent,
    WatchKind,
    parent_of,
)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as the store keeps it over a restart. Who knows `password` may take it up on another connection."""

    session_id: int
    password: bytes
    timeout_ms: int


@dataclass(slots=True)
class Staged:
    """One accepted transaction: the changed nodes (None: deleted), its results and watch events; the session that it opens, or
    closes; the access lists of the nodes that it deletes, which decide who hears of that."""

    zxid: int
    nodes: dict[str, Node | None]
    results: list[OperationResult]
    events: list[WatchEvent]
    opened_session: StoredSession | None = None
    closed_session_id: int | None = None
    time_ms: int = 0
    deleted_acls: dict[str, tuple[Acl, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Watches:
    """The one-shot watches of one session, by path and kind."""

    data: dict[str, list[Watch]] = field(default_factory=dict)
    children: dict[str, list[Watch]] = field(default_factory=dict)

    def take(self, event: WatchEvent) -> list[Watch]:
        """Remove and return the watches that `event` triggers."""
        if event.kind is WatchKind.CHILDREN:
            return self.children.pop(event.path, [])
        taken = self.data.pop(event.path, [])
        if event.kind is WatchKind.DELETED:
            taken += self.children.pop(event.path, [])
        return taken

    def clear(self) -> None:
        self.data.clear()
        self.children.clear()


@dataclass(frozen=True, slots=True)
class _Caller:
    session_id: int
    now_ms: int
    identities: Identities | None

    def require(self, node: Node, permission: Permission, path: str) -> None:
        if self.identities is not None and not permits(node.acl, permission, self.identities):
            raise AccessDeniedError(path)


class NodeTree:
    """`nodes` belong to the tree from now on."""

    def __init__(self, nodes: Nodes | None = None, zxid: int = 0, sessions: Iterable[StoredSession] = ()) -> None:
        self.nodes = nodes if nodes is not None else Nodes()
        self.zxid = zxid
        self.sessions = {session.session_id: session for session in sessions}
        self._staged_zxid = zxid
        self._staged_nodes: dict[str, tuple[int, Node | None]] = {}  # path -> (zxid of the newest, the node)
        self._open_session_ids = set(self.sessions)  # after all staged transactions

    # Reads of what is applied.

    def node(self, path: str) -> Node:
        node = self.nodes.find(path)
        if node is None:
            raise NoNodeError(path)
        return node

    def children(self, path: str) -> list[str]:
        self.node(path)
        return sorted(self.nodes.names(path))

    def ephemerals_of(self, session_id: int) -> list[str]:
        return sorted(path for path, owner in self.nodes.ephemerals.items() if owner == session_id)

    # Writes.

    def stage(
        self, operations: Transaction, *, session_id: int, now_ms: int, identities: Identities | None = None
    ) -> Staged:
        """Raises the StoreError of the first operation that fails."""
        staged = Staged(zxid=self._staged_zxid + 1, nodes={}, results=[], events=[], time_ms=now_ms)
        caller = _Caller(session_id, now_ms, identities)
        for index, operation in enumerate(operations):
            try:
                staged.results.append(self._stage_one(staged, operation, caller))
            except StoreError as error:
                error.operation_index = index
                raise
        return self._accept(staged)

    def stage_nodes(self, nodes: Mapping[str, Node]) -> Staged:
        """Put nodes as they are, stats included; parents come first, and count their children. Nobody is told."""
        return self._accept(Staged(self._staged_zxid + 1, dict(nodes), [], []))

    def is_session_open(self, session_id: int) -> bool:
        """Whether it is open after all staged transactions."""
        return session_id in self._open_session_ids

    def stage_session(self, session: StoredSession) -> Staged:
        """Open a session, whose id must be new."""
        assert session.session_id not in self._open_session_ids, f"session {session.session_id:#x} is open"
        self._open_session_ids.add(session.session_id)
        return self._accept(Staged(self._staged_zxid + 1, {}, [], [], opened_session=session))

    def stage_session_end(self, session_id: int) -> Staged:
        """Close an open session: its ephemeral nodes are deleted in the same transaction."""
        self._open_session_ids.remove(session_id)
        staged = Staged(self._staged_zxid + 1, {}, [], [], closed_session_id=session_id)
        paths = {path for path, owner in self.nodes.ephemerals.items() if owner == session_id}
        for path, (_, node) in self._staged_nodes.items():
            if node is not None and node.ephemeral_owner == session_id:
                paths.add(path)
            else:
                paths.discard(path)
        for path in sorted(paths):
            self._stage_delete(staged, path)
        return self._accept(staged)

    def _accept(self, staged: Staged) -> Staged:
        self._staged_zxid = staged.zxid
        for path, node in staged.nodes.items():
            self._staged_nodes[path] = (staged.zxid, node)
        return staged

    def apply(self, staged: Staged) -> None:
        assert staged.zxid > self.zxid, "transactions are applied in the order of staging"
        self.zxid = staged.zxid
        if staged.opened_session is not None:
            self.sessions[staged.opened_session.session_id] = staged.opened_session
        if staged.closed_session_id is not None:
            del self.sessions[staged.closed_session_id]
        for path, node in staged.nodes.items():
            if self._staged_nodes[path][0] == staged.zxid:
                del self._staged_nodes[path]
            if node is None:
                self.nodes.remove(path)
            else:
                self.nodes.put(path, node)

    def abandon_staged(self) -> None:
        """Drop every staged transaction: none of them will be applied."""
        self._staged_nodes.clear()
        self._staged_zxid = self.zxid
        self._open_session_ids = set(self.sessions)

    def _find(self, staged: Staged, path: str) -> Node | None:
        if path in staged.nodes:
            return staged.nodes[path]
        if path in self._staged_nodes:
            return self._staged_nodes[path][1]
        return self.nodes.find(path)

    def _require(self, staged: Staged, path: str) -> Node:
        node = self._find(staged, path)
        if node is None:
            raise NoNodeError(path)
        return node

    def _stage_one(self, staged: Staged, operation: Operation, caller: _Caller) -> OperationResult:
        match operation:
            case Create():
                return self._stage_create(staged, operation, caller)
            case SetData(path, data, version):
                node = self._require(staged, path)
                caller.require(node, Permission.WRITE, path)
                _match(version, node.version, path)
                changed = node.with_data(data, staged.zxid, caller.now_ms)
                staged.nodes[path] = changed
                staged.events.append(WatchEvent(WatchKind.CHANGED, path))
                return changed.stat
            case Delete(path, version):
                if path == "/":
                    raise RefusedError(path)
                caller.require(self._require(staged, parent_of(path)), Permission.DELETE, path)
                node = self._require(staged, path)
                _match(version, node.version, path)
                if node.num_children:
                    raise NotEmptyError(path)
                self._stage_delete(staged, path)
                return None
            case Check(path, version):
                node = self._require(staged, path)
                caller.require(node, Permission.READ, path)
                _match(version, node.version, path)
                return None
            case SetAcl(path, acl, version):
                node = self._require(staged, path)
                caller.require(node, Permission.ADMIN, path)
                _match(version, node.aversion, path)
                changed = node._replace(acl=decoded(encoded(acl)), aversion=node.aversion + 1)
                staged.nodes[path] = changed
                return changed.stat

    def _stage_delete(self, staged: Staged, path: str) -> None:
        """`path` is a leaf."""
        parent = parent_of(path)
        above = self._require(staged, parent)
        staged.deleted_acls[path] = self._require(staged, path).acl
        staged.nodes[path] = None
        staged.nodes[parent] = above.with_children(0, above.num_children - 1, staged.zxid)
        staged.events += [WatchEvent(WatchKind.DELETED, path), WatchEvent(WatchKind.CHILDREN, parent)]

    def _stage_create(self, staged: Staged, operation: Create, caller: _Caller) -> str:
        parent = parent_of(operation.path)
        above = self._require(staged, parent)
        caller.require(above, Permission.CREATE, operation.path)
        path = f"{operation.path}{above.children_created:010d}" if operation.sequential else operation.path
        if not is_path(path):
            raise RefusedError(path)
        if self._find(staged, path) is not None:
            raise NodeExistsError(path)
        if above.ephemeral_owner != NOT_EPHEMERAL:
            raise NoChildrenForEphemeralsError(operation.path)
        staged.nodes[path] = Node(
            data=operation.data,
            version=0,
            czxid=staged.zxid,
            mzxid=staged.zxid,
            ctime_ms=caller.now_ms,
            mtime_ms=caller.now_ms,
            ephemeral_owner=caller.session_id if operation.ephemeral else NOT_EPHEMERAL,
            pzxid=staged.zxid,
            acl=decoded(encoded(operation.acl)),
        )
        staged.nodes[parent] = above.with_children(1, above.num_children + 1, staged.zxid)
        staged.events += [WatchEvent(WatchKind.CREATED, path), WatchEvent(WatchKind.CHILDREN, parent)]
        return path


def _match(expected: int, version: int, path: str) -> None:
    if expected not in (ANY_VERSION, version):
        raise BadVersionError(path)
