"""Requests of clients: from the bytes of a frame to what they ask for, and what is refused before the tree is asked. Pure.

Rules: pure. A frame that does not follow its format raises DecodeError; what is well-formed and wrong has a code. Bytes behind
a request are ignored, as are null and its difference from an empty text.
Source: ZooKeeper zookeeper.jute, PrepRequestProcessor, CreateMode, MultiOperationRecord.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from metadata.store.node_paths import is_path
from metadata.store.port import Acl, Check, Create, Delete, Operation, SetAcl, SetData
from metadata.store.server.authentication import InvalidAclError
from metadata.store.zookeeper.wire import EPHEMERAL_FLAG, SEQUENTIAL_FLAG, OpCode, Reader, ReplyCode
from protocol.primitives import Buffer, DecodeError

SPECIAL_PATHS: Final = frozenset({"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"})
"""They cannot be deleted."""
WRITES: Final = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.DELETE_CONTAINER,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.CHECK,
        OpCode.RECONFIG,
    }
)
READS: Final = frozenset(
    {
        OpCode.EXISTS,
        OpCode.GET_DATA,
        OpCode.GET_ACL,
        OpCode.GET_CHILDREN,
        OpCode.GET_CHILDREN2,
        OpCode.GET_ALL_CHILDREN_NUMBER,
        OpCode.GET_EPHEMERALS,
        OpCode.SYNC,
        OpCode.PING,
        OpCode.MULTI_READ,
        OpCode.SET_WATCHES,
        OpCode.SET_WATCHES2,
        OpCode.ADD_WATCH,
        OpCode.CHECK_WATCHES,
        OpCode.REMOVE_WATCHES,
        OpCode.WHO_AM_I,
    }
)
MULTI_WRITES: Final = frozenset({OpCode.CREATE, OpCode.CREATE2, OpCode.DELETE, OpCode.SET_DATA, OpCode.CHECK})
MULTI_READS: Final = frozenset({OpCode.GET_DATA, OpCode.GET_CHILDREN})
_MULTI_KNOWN: Final = MULTI_WRITES | MULTI_READS | {OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL}
_FLAGS_MAX: Final = EPHEMERAL_FLAG | SEQUENTIAL_FLAG
# Containers, and nodes with a time to live.
_UNIMPLEMENTED_FLAGS: Final = frozenset({4, 5, 6})

CheckedAcl = Callable[[Sequence[Acl]], tuple[Acl, ...]]


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """The handshake of a client. Session 0 asks for a new one."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes
    knows_read_only: bool

    @classmethod
    def of(cls, frame: Buffer) -> ConnectRequest:
        """Raises DecodeError."""
        reader = Reader(frame)
        reader.int32()  # protocol version
        last_zxid, timeout_ms, session_id = reader.int64(), reader.int32(), reader.int64()
        password = reader.opaque()
        return cls(last_zxid, timeout_ms, session_id, password, not reader.is_at_end)


@dataclass(frozen=True, slots=True)
class Write:
    """One operation on the tree, with the code under which it was asked for and is answered. `refusal`: it fails with this,
    whatever the tree is like."""

    code: OpCode
    operation: Operation
    refusal: ReplyCode | None = None
    has_unknown_flags: bool = False


def read_write(code: OpCode, reader: Reader, checked_acl: CheckedAcl) -> Write:
    """Read the body of one of `WRITES`. `checked_acl` returns an access list as it is stored, or raises InvalidAclError."""
    match code:
        case OpCode.CREATE | OpCode.CREATE2:
            return _create(code, reader, checked_acl)
        case OpCode.DELETE:
            delete = Delete(reader.text(), reader.int32())
            path = delete.path
            is_wrong = "/" not in path or "\0" in path or path in SPECIAL_PATHS
            return Write(code, delete, ReplyCode.BAD_ARGUMENTS if is_wrong else None)
        case OpCode.SET_DATA:
            return _named(code, SetData(reader.text(), reader.opaque(), reader.int32()))
        case OpCode.CHECK:
            return _named(code, Check(reader.text(), reader.int32()))
        case OpCode.SET_ACL:
            path, acl, version = reader.text(), reader.acls(), reader.int32()
            if not is_path(path):
                return Write(code, SetAcl(path, tuple(acl), version), ReplyCode.BAD_ARGUMENTS)
            try:
                return Write(code, SetAcl(path, checked_acl(acl), version))
            except InvalidAclError:
                return Write(code, SetAcl(path, tuple(acl), version), ReplyCode.INVALID_ACL)
        case OpCode.RECONFIG:
            return Write(code, Check("", 0), ReplyCode.RECONFIG_DISABLED)
    # A container, or a node with a time to live.
    if code is OpCode.DELETE_CONTAINER:
        reader.text()
    else:
        _create(code, reader, checked_acl)
    return Write(code, Check("", 0), ReplyCode.UNIMPLEMENTED)


def _named(code: OpCode, operation: SetData | Check) -> Write:
    return Write(code, operation, None if is_path(operation.path) else ReplyCode.BAD_ARGUMENTS)


def _create(code: OpCode, reader: Reader, checked_acl: CheckedAcl) -> Write:
    path, data, acl, flags = reader.text(), reader.opaque(), reader.acls(), reader.int32()
    is_sequential = bool(flags & SEQUENTIAL_FLAG)
    create = Create(path, data, bool(flags & EPHEMERAL_FLAG), is_sequential)
    if flags in _UNIMPLEMENTED_FLAGS:
        return Write(code, create, ReplyCode.UNIMPLEMENTED)
    if not 0 <= flags <= _FLAGS_MAX:
        return Write(code, create, ReplyCode.BAD_ARGUMENTS, has_unknown_flags=True)
    if "/" not in path or "\0" in path:
        return Write(code, create, ReplyCode.BAD_ARGUMENTS)
    try:
        create = Create(path, data, create.ephemeral, is_sequential, checked_acl(acl))
    except InvalidAclError:
        return Write(code, create, ReplyCode.INVALID_ACL)
    return Write(code, create)


def read_multi(reader: Reader, checked_acl: CheckedAcl) -> list[Write]:
    """Read the operations of a transaction. Raises DecodeError, also for what is no write."""
    writes: list[Write] = []
    while True:
        code, is_done = reader.multi_header()
        if is_done:
            return writes
        if code not in _MULTI_KNOWN or code in MULTI_READS:
            raise DecodeError(f"operation {code} in a transaction")
        write = read_write(OpCode(code), reader, checked_acl)
        if write.has_unknown_flags:
            raise DecodeError("flags that there are not")
        writes.append(write)


def read_multi_read(reader: Reader) -> list[tuple[OpCode, str]]:
    """Read the parts of a multiRead: operation and path. Raises DecodeError."""
    reads: list[tuple[OpCode, str]] = []
    while True:
        code, is_done = reader.multi_header()
        if is_done:
            return reads
        if code not in MULTI_READS:
            raise DecodeError(f"operation {code} in a multiRead")
        reads.append((OpCode(code), reader.text()))
        reader.boolean()  # no watch is set, whatever it says
