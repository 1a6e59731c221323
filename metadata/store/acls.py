"""ACLs in the store: a node for each pattern with its entries, and the notifications of their changes.

    /kafka-acl/Topic/orders                    the entries for the topic "orders"; "*" is every topic
    /kafka-acl-extended/prefixed/Topic/ord     those for all topics whose names begin with "ord"
    /kafka-acl-changes, /kafka-acl-extended-changes      notifications, one folder a kind of pattern

Rules: any broker writes, and so does kafka-acls.sh: a node is set only in the version that was read, else it is read again.
Change and notification are one transaction. A pattern without entries has no node. Entries are kept as texts, so that those
which this broker does not understand survive a change of others.
Source: Kafka ZkAclStore, ZkAclChangeStore, AclEntry, AclAuthorizer.updateResourceAcls; KIP-290.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from metadata.store import change_nodes
from metadata.store.change_nodes import ChangeNode
from metadata.store.port import (
    BadVersionError,
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Tree,
    Watch,
    ensure_path,
)
from metadata.store.znode_json import decode_json, encode_json, one_error, require

logger = logging.getLogger(__name__)

LITERAL, PREFIXED = "LITERAL", "PREFIXED"
RESOURCE_TYPES = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
FOLDERS = {LITERAL: "/kafka-acl", PREFIXED: "/kafka-acl-extended/prefixed"}
CHANGES = {LITERAL: "/kafka-acl-changes", PREFIXED: "/kafka-acl-extended-changes"}
CHANGE_PREFIX = "acl_changes_"
VERSION = 1
ATTEMPTS_MAX = 10
"""Of a change, each after another writer was faster. Kafka's."""


class AclNode(NamedTuple):
    """A pattern, in the words of RESOURCE_TYPES and FOLDERS."""

    resource_type: str
    name: str
    pattern_type: str

    @property
    def path(self) -> str:
        return f"{FOLDERS[self.pattern_type]}/{words_of(self.resource_type)}/{self.name}"


class AclRow(NamedTuple):
    """One entry of a node, as it stands there: `operation` is a text like "DescribeConfigs", `permission` "Allow" or "Deny"."""

    principal: str
    permission: str
    host: str
    operation: str


Edit = Callable[[Sequence[AclRow]], Sequence[AclRow]]
"""Returns the rows that a node shall have, from those that it has. May be called several times."""


class InvalidAclNode(Exception):
    """A node cannot be read: what it grants or denies is unknown."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the ACLs in {path} cannot be read: {reason}")
        self.path = path


# Apart from "/", what ZooKeeper refuses in a path.
_IMPOSSIBLE = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def is_possible_name(name: str) -> bool:
    """Return whether there can be a node for patterns of this name."""
    return name not in ("", ".", "..") and _IMPOSSIBLE.search(name) is None


def words_of(name: str) -> str:
    """Return the name of a constant as nodes have it: "DESCRIBE_CONFIGS" is "DescribeConfigs"."""
    return "".join(word.capitalize() for word in name.split("_"))


_TYPE_OF_WORDS = {words_of(each): each for each in RESOURCE_TYPES}


def encode_rows(rows: Iterable[AclRow]) -> bytes:
    acls = [
        {"principal": row.principal, "permissionType": row.permission, "host": row.host, "operation": row.operation}
        for row in rows
    ]
    return encode_json({"acls": acls, "version": VERSION})


@one_error
def decode_rows(data: bytes) -> list[AclRow]:
    """Raises ValueError."""
    if not data:
        return []
    value = decode_json(data, "ACLs")
    if value.get("version") != VERSION:
        raise ValueError(f"version {value.get('version')!r} is not known")
    rows = [
        AclRow(*(_text(each, key) for key in ("principal", "permissionType", "host", "operation")))
        for each in require(value, "acls", "ACLs")
    ]
    for row in rows:
        if ":" not in row.principal:
            raise ValueError(f"principal {row.principal!r} has no type")
    return rows


def _text(value: dict[str, object], key: str) -> str:
    found = value[key]
    if not isinstance(found, str):
        raise TypeError(f"{key} is no text")
    return found


def encode_change(node: AclNode) -> bytes:
    if node.pattern_type == LITERAL:
        return f"{node.resource_type}:{node.name}".encode()
    return encode_json(
        {"version": VERSION, "resourceType": node.resource_type, "name": node.name, "patternType": node.pattern_type}
    )


@one_error
def decode_change(data: bytes, pattern_type: str) -> AclNode:
    """Return what a notification in the folder of `pattern_type` is about. Raises ValueError."""
    if pattern_type == LITERAL:
        resource_type, separator, name = data.decode().partition(":")
        if not separator:
            raise ValueError("no type and name")
    else:
        value = decode_json(data, "change of ACLs")
        resource_type, name, pattern_type = (_text(value, key) for key in ("resourceType", "name", "patternType"))
    resource_type = resource_type.upper()
    if resource_type not in RESOURCE_TYPES or pattern_type not in FOLDERS or not is_possible_name(name):
        raise ValueError(f"no pattern: {resource_type} {pattern_type} {name!r}")
    return AclNode(resource_type, name, pattern_type)


# --- reading ---


async def ensure_acl_paths(store: Tree) -> None:
    """Create the folders. Raises StoreError."""
    for pattern_type, folder in FOLDERS.items():
        for resource_type in RESOURCE_TYPES:
            await ensure_path(store, f"{folder}/{words_of(resource_type)}")
        await ensure_path(store, CHANGES[pattern_type])


async def read_nodes(store: Tree, nodes: Sequence[AclNode]) -> dict[AclNode, list[AclRow] | InvalidAclNode]:
    """Return the rows of each node, none for one that is not there. Raises StoreError."""
    found = await store.read_many([node.path for node in nodes])
    rows: dict[AclNode, list[AclRow] | InvalidAclNode] = {}
    for node, read in zip(nodes, found, strict=True):
        try:
            rows[node] = [] if read is None else decode_rows(read[0])
        except ValueError as error:
            rows[node] = InvalidAclNode(node.path, str(error))
    return rows


async def named_nodes(store: Tree) -> list[AclNode]:
    """Return the nodes of all patterns. Raises StoreError."""
    nodes = []
    for pattern_type, folder in FOLDERS.items():
        for words in await store.children(folder):
            resource_type = _TYPE_OF_WORDS.get(words)
            if resource_type is None:
                logger.warning("ACLs of an unknown type ignored: path=%s", f"{folder}/{words}")
                continue
            names = await store.children(f"{folder}/{words}")
            nodes += [AclNode(resource_type, name, pattern_type) for name in names]
    return nodes


async def changes_after(
    store: Tree, pattern_type: str, sequence: int, watch: Watch | None = None
) -> list[tuple[int, AclNode | None]]:
    """Return the notifications of one kind of pattern after `sequence` (-1: all), in order, with None for one that cannot be
    read. `watch` is set on their list. Raises StoreError."""
    folder = CHANGES[pattern_type]
    found = await change_nodes.nodes_after(store, folder, CHANGE_PREFIX, sequence, watch)
    return [(each.sequence, _node_of(each, pattern_type)) for each in found]


def _node_of(change: ChangeNode, pattern_type: str) -> AclNode | None:
    try:
        return decode_change(change.data, pattern_type)
    except ValueError as error:
        logger.warning("change of ACLs ignored: path=%s error=%s", f"{CHANGES[pattern_type]}/{change.name}", str(error))
        return None


async def purge_changes(store: Tree, now_ms: int) -> int:
    """Remove old notifications; returns how many. Raises StoreError."""
    return sum([await change_nodes.purge(store, folder, now_ms) for folder in CHANGES.values()])


# --- writing ---


async def update(store: Tree, node: AclNode, edit: Edit) -> tuple[list[AclRow], list[AclRow]]:
    """Replace a node's rows by the result of `edit`, and notify every broker of a change. Returns the rows before and after.

    Raises InvalidAclNode, StoreError: BadVersionError if other writers were faster each time.
    """
    unsure_before: list[AclRow] | None = None  # set by an attempt without a response, which may have been executed
    for _ in range(ATTEMPTS_MAX):
        try:
            data, stat = await store.get(node.path)
            version: int | None = stat.version
        except NoNodeError:
            data, version = b"", None
        try:
            before = decode_rows(data)
        except ValueError as error:
            raise InvalidAclNode(node.path, str(error)) from error
        after = list(edit(before))
        if after == before and unsure_before is None:
            return before, after
        try:
            await store.multi(_transaction(node, after, version, has_changed=after != before))
        except (BadVersionError, NodeExistsError):
            continue
        except NoNodeError:
            await ensure_acl_paths(store)
        except ConnectionLossError:
            unsure_before = before
        else:
            return before if unsure_before is None else unsure_before, after
    raise BadVersionError(node.path)


def _transaction(node: AclNode, rows: Sequence[AclRow], version: int | None, *, has_changed: bool) -> list[Operation]:
    operations: list[Operation] = []
    if has_changed:
        if version is None:
            operations.append(Create(node.path, encode_rows(rows)))
        elif rows:
            operations.append(SetData(node.path, encode_rows(rows), version))
        else:
            operations.append(Delete(node.path, version))
    operations.append(Create(f"{CHANGES[node.pattern_type]}/{CHANGE_PREFIX}", encode_change(node), sequential=True))
    return operations
