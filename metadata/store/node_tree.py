"""The tree: the effects of transactions on it, and the watches that they trigger. Pure.

Shared by the embedded store (which commits the changes before it applies them) and the simulated ensemble.

Rules: `stage` checks a transaction against the tree after all staged transactions, and changes nothing.
`apply` makes staged changes visible, in the order of staging. A failed transaction has no effect.
Invariants: a node's parent exists; an ephemeral node has no children; zxids increase.
Source: ZooKeeper DataTree, PrepRequestProcessor. A sequence number counts the children ever created under the parent;
the reported cversion counts creations and deletions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from metadata.store.node_map import Node, Nodes
from metadata.store.port import (
    ANY_VERSION,
    NOT_EPHEMERAL,
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
    RefusedError,
    SetData,
    StoreError,
    Transaction,
    Watch,
    WatchEvent,
    WatchKind,
    parent_of,
)


@dataclass(slots=True)
class Staged:
    """One accepted transaction: the changed nodes (None: deleted), its results and watch events."""

    zxid: int
    nodes: dict[str, Node | None]
    results: list[OperationResult]
    events: list[WatchEvent]


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


class NodeTree:
    """`nodes` belong to the tree from now on."""

    def __init__(self, nodes: Nodes | None = None, zxid: int = 0) -> None:
        self.nodes = nodes if nodes is not None else Nodes()
        self.zxid = zxid
        self._staged_zxid = zxid
        self._staged_nodes: dict[str, tuple[int, Node | None]] = {}  # path -> (zxid of the newest, the node)

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

    def ephemerals_not_of(self, session_id: int) -> list[str]:
        return sorted(path for path, owner in self.nodes.ephemerals.items() if owner != session_id)

    # Writes.

    def stage(self, operations: Transaction, *, session_id: int, now_ms: int) -> Staged:
        """Raises the StoreError of the first operation that fails."""
        zxid = self._staged_zxid + 1
        staged = Staged(zxid=zxid, nodes={}, results=[], events=[])
        for index, operation in enumerate(operations):
            try:
                staged.results.append(self._stage_one(staged, operation, session_id, now_ms))
            except StoreError as error:
                error.operation_index = index
                raise
        self._staged_zxid = zxid
        for path, node in staged.nodes.items():
            self._staged_nodes[path] = (zxid, node)
        return staged

    def apply(self, staged: Staged) -> None:
        assert staged.zxid > self.zxid, "transactions are applied in the order of staging"
        self.zxid = staged.zxid
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

    def _find(self, staged: Staged, path: str) -> Node | None:
        if path in staged.nodes:
            return staged.nodes[path]
        if path in self._staged_nodes:
            return self._staged_nodes[path][1]
        return self.nodes.find(path)

    def _require(self, staged: Staged, path: str, version: int = ANY_VERSION) -> Node:
        node = self._find(staged, path)
        if node is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(path)
        return node

    def _stage_one(self, staged: Staged, operation: Operation, session_id: int, now_ms: int) -> OperationResult:
        match operation:
            case Check(path, version):
                self._require(staged, path, version)
                return None
            case SetData(path, data, version):
                node = self._require(staged, path, version)
                changed = replace(node, data=data, version=node.version + 1, mzxid=staged.zxid, mtime_ms=now_ms)
                staged.nodes[path] = changed
                staged.events.append(WatchEvent(WatchKind.CHANGED, path))
                return changed.stat
            case Delete(path, version):
                if self._require(staged, path, version).num_children or path == "/":
                    raise NotEmptyError(path)
                parent = parent_of(path)
                above = self._require(staged, parent)
                staged.nodes[path] = None
                staged.nodes[parent] = replace(above, num_children=above.num_children - 1)
                staged.events += [WatchEvent(WatchKind.DELETED, path), WatchEvent(WatchKind.CHILDREN, parent)]
                return None
            case Create():
                return self._stage_create(staged, operation, session_id, now_ms)

    def _stage_create(self, staged: Staged, operation: Create, session_id: int, now_ms: int) -> str:
        if not operation.path.startswith("/"):
            raise RefusedError(operation.path)
        parent = parent_of(operation.path)
        above = self._require(staged, parent)
        if above.ephemeral_owner != NOT_EPHEMERAL:
            raise NoChildrenForEphemeralsError(operation.path)
        path = f"{operation.path}{above.children_created:010d}" if operation.sequential else operation.path
        if self._find(staged, path) is not None:
            raise NodeExistsError(path)
        staged.nodes[path] = Node(
            data=operation.data,
            version=0,
            czxid=staged.zxid,
            mzxid=staged.zxid,
            ctime_ms=now_ms,
            mtime_ms=now_ms,
            ephemeral_owner=session_id if operation.ephemeral else NOT_EPHEMERAL,
        )
        staged.nodes[parent] = replace(
            above, children_created=above.children_created + 1, num_children=above.num_children + 1
        )
        staged.events += [WatchEvent(WatchKind.CREATED, path), WatchEvent(WatchKind.CHILDREN, parent)]
        return path
