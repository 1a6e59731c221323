"""The store that coordinates a cluster: the interface of the store, its results and errors.

A tree of small nodes with versions, as in ZooKeeper. Adapters: `metadata.store.embedded` (in process, one file) and
one over a real ensemble; the simulation has its own. All pass one conformance suite.

Rules:
- Everything runs on the event loop. Watches and replies of one session arrive in the order in which the store decided:
  a watch is triggered before any result that contains the change.
- A watch is one-shot, and lost when its session ends.
- `session()` binds the operations to the current session. A caller that must not act under a later session (a controller that
  may have been replaced meanwhile) keeps that object: its operations raise SessionExpiredError when the session has ended.
- ConnectionLoss on a write means "outcome unknown": read and decide. A read can be repeated.
- Paths are absolute, without a slash at the end; "/" always exists.

Source: ZooKeeper's programmer's guide; Kafka KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple, Protocol

from metadata.store.store_use import StoreUse

ANY_VERSION = -1
NOT_EPHEMERAL = 0


class Permission(IntEnum):
    """What an entry of an access list allows."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


class Acl(NamedTuple):
    """One entry of a node's access list. `permissions` is a sum of `Permission`s."""

    permissions: int
    scheme: str
    identity: str


OPEN_ACL: Final = (Acl(31, "world", "anyone"),)


@dataclass(frozen=True, slots=True)
class Stat:
    """The metadata of a node, in the order of ZooKeeper's Stat. `czxid` and `mzxid` are the transactions that made it and last
    set its data, `pzxid` the last one that created or deleted a child of it (or made it). `version`, `cversion` and `aversion`
    count the changes of its data, of its children, and of its access list. `data_length` is in bytes."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int

    @property
    def is_ephemeral(self) -> bool:
        return self.ephemeral_owner != NOT_EPHEMERAL


class StoreError(Exception):
    """An error of the store, or no response. `operation_index` is the operation of a multi that failed."""

    def __init__(self, path: str = "", operation_index: int | None = None) -> None:
        super().__init__(path)
        self.path = path
        self.operation_index = operation_index


class NoNodeError(StoreError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExistsError(StoreError):
    """The node to create exists already."""


class BadVersionError(StoreError):
    """The node's data has another version than the caller expected."""


class NotEmptyError(StoreError):
    """The node to delete has children."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral node cannot be a parent."""


class FinalError(StoreError):
    """The store refuses the operation finally: a retry would fail, too."""


class AccessDeniedError(FinalError):
    """The node's access list forbids it, or the list for a new node is empty."""


class RefusedError(FinalError):
    """The store cannot execute the operation: it is too large, or malformed."""


class SessionExpiredError(StoreError):
    """The session that this operation belongs to has ended; its ephemeral nodes are or will be removed."""


class ConnectionLossError(StoreError):
    """No response came: a write may or may not have been executed."""


class WatchKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    kind: WatchKind
    path: str


Watch = Callable[[WatchEvent], None]


class SessionEvent(Enum):
    """CONNECTED: a new session, or the same one after SUSPENDED. EXPIRED: the session's watches and ephemeral nodes
    are removed."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Create:
    """`sequential` appends the parent's ten-digit counter to the name; the result is the path that was created. With
    `zookeeper.set.acl` a node whose list is OPEN_ACL gets the one that Kafka gives it."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    acl: tuple[Acl, ...] = OPEN_ACL


@dataclass(frozen=True, slots=True)
class SetData:
    """The result is the new Stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Succeeds when the node's data has this version (any, for ANY_VERSION)."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class SetAcl:
    """`version` is that of the access list (`Stat.aversion`). The result is the new Stat. ZooKeeper has it alone only, not in
    a multi."""

    path: str
    acl: tuple[Acl, ...]
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check | SetAcl
OperationResult = str | Stat | None
Transaction = Sequence[Operation]


class Tree(Protocol):
    """The operations. Every one raises StoreError's children and nothing else."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Raises NoNodeError for a missing parent, NodeExistsError, NoChildrenForEphemeralsError."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Raises NoNodeError, and sets no watch then. `watch` reports CHANGED or DELETED."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Raises NoNodeError, BadVersionError."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Raises NoNodeError, BadVersionError, NotEmptyError."""

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return the node's Stat, or None. `watch` reports CREATED, CHANGED or DELETED, and is set in any case."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return sorted names. Raises NoNodeError, and sets no watch then. `watch` reports CHILDREN, or DELETED of the
        node."""

    async def multi(self, operations: Transaction) -> list[OperationResult]:
        """Execute operations atomically; returns results in order. Raises the error of the first operation that fails, with
        its index."""

    async def sync(self, path: str) -> None:
        """Ensure that later reads return at least the state at this call."""

    async def read_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        """`get` of each path, pipelined: results in order, None (and no watch) for a missing node."""

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        """`multi` of each transaction, pipelined in order: a failed one does not stop the next. Raises only
        SessionExpiredError and ConnectionLossError."""


class Session(Tree, Protocol):
    """The operations, bound to one session."""

    session_id: int


class Store(Tree, Protocol):
    """A client of the store, over all of its sessions. Operations use the current session."""

    use: StoreUse

    def session(self) -> Session: ...

    def subscribe(self, callback: Callable[[SessionEvent], None]) -> None:
        """Call `listener` with session events, in one order with watches and replies."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes are removed immediately."""


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


async def ensure_path(store: Tree, path: str) -> None:
    """Create `path` and its missing parents, empty."""
    if path == "/" or await store.exists(path) is not None:
        return
    await ensure_path(store, parent_of(path))
    try:
        await store.create(path)
    except NodeExistsError:
        return  # another session has created it
