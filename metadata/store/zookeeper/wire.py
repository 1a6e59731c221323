"""ZooKeeper's wire format: the requests of a store as bytes, and the responses of a server. Pure.

    frame     int32 length, then
    request   int32 xid, int32 operation, body
    reply     int32 xid, int64 zxid, int32 error, body (only without an error)

Rules: pure. All numbers are big-endian; text is UTF-8 behind an int32 length, bytes behind one that -1 makes null, a
vector is an int32 count and its elements. The first frame each way is the handshake and has no header. Readers do
not trust the server: they raise DecodeError and nothing else.
Source: ZooKeeper zookeeper.jute (ConnectRequest, RequestHeader, ReplyHeader, MultiHeader, SetWatches, Stat), ZooDefs,
KeeperException.Code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from metadata.store.port import (
    OPEN_ACL,
    AccessDeniedError,
    Acl,
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    OperationResult,
    RefusedError,
    SessionExpiredError,
    SetAcl,
    SetData,
    Stat,
    StoreError,
    WatchKind,
)
from protocol.primitives import Buffer, DecodeError, decode_text

PASSWORD_BYTES: Final = 16
# A server closes the connection of a client that sends more (jute.maxbuffer, its default).
REQUEST_BYTES_MAX: Final = 0xFFFFF
# The bound of one SetWatches, as ZooKeeper's own client keeps it.
SET_WATCHES_BYTES_MAX: Final = 128 * 1024

# An entry of an access list with an empty scheme and identity.
ACL_BYTES_MIN: Final = 12

# Special xids, of frames that are no response to a request.
NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

EPHEMERAL_FLAG, SEQUENTIAL_FLAG = 1, 2
_BOOL = struct.Struct(">?")
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_REQUEST_HEADER = struct.Struct(">ii")
REPLY_HEADER = struct.Struct(">iqi")
MULTI_HEADER = struct.Struct(">i?i")
STAT = struct.Struct(">qqqqiiiqiiq")


class OpCode(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11
    ERROR = -1  # the result of one operation of a multi that failed


class ReplyCode(IntEnum):
    OK = 0
    RUNTIME_INCONSISTENCY = -2  # of a multi: an earlier operation failed, so this one was not tried
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NO_WATCHER = -121
    RECONFIG_DISABLED = -123


_REFUSALS: Final[dict[int, type[StoreError]]] = {
    ReplyCode.CONNECTION_LOSS: ConnectionLossError,
    ReplyCode.OPERATION_TIMEOUT: ConnectionLossError,
    ReplyCode.NO_NODE: NoNodeError,
    ReplyCode.NO_AUTH: AccessDeniedError,
    ReplyCode.BAD_VERSION: BadVersionError,
    ReplyCode.NO_CHILDREN_FOR_EPHEMERALS: NoChildrenForEphemeralsError,
    ReplyCode.NODE_EXISTS: NodeExistsError,
    ReplyCode.NOT_EMPTY: NotEmptyError,
    ReplyCode.SESSION_EXPIRED: SessionExpiredError,
    ReplyCode.INVALID_ACL: AccessDeniedError,
    ReplyCode.AUTH_FAILED: AccessDeniedError,
    ReplyCode.SESSION_MOVED: ConnectionLossError,
}

EVENT_KINDS: Final[dict[int, WatchKind]] = {
    1: WatchKind.CREATED,
    2: WatchKind.DELETED,
    3: WatchKind.CHANGED,
    4: WatchKind.CHILDREN,
}


def refusal(code: int, path: str, operation_index: int | None = None) -> StoreError:
    kind = _REFUSALS.get(code)
    if kind is None:
        return RefusedError(f"{path}: error {code}", operation_index)
    return kind(path, operation_index)


CREATOR_ALL: Final = Acl(31, "auth", "")
ANYONE_READS: Final = Acl(1, "world", "anyone")


# --- writing ---


def int32(value: int) -> bytes:
    return _INT.pack(value)


def text(value: str) -> bytes:
    raw = value.encode()
    return _INT.pack(len(raw)) + raw


def opaque(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


def texts(values: Collection[str]) -> bytes:
    return b"".join([_INT.pack(len(values)), *map(text, values)])


def framed(payload: bytes) -> bytes:
    return _INT.pack(len(payload)) + payload


def request_frame(xid: int, operation: OpCode, body: bytes) -> bytes:
    return framed(_REQUEST_HEADER.pack(xid, operation) + body)


def connect_frame(*, last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    """The handshake: protocol version 0, and no read-only server."""
    numbers = struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id)
    return framed(numbers + opaque(password) + b"\0")


def ping_frame() -> bytes:
    return request_frame(PING_XID, OpCode.PING, b"")


def auth_frame(scheme: str, credentials: bytes) -> bytes:
    return request_frame(AUTH_XID, OpCode.AUTH, int32(0) + text(scheme) + opaque(credentials))


def sasl_body(token: bytes) -> bytes:
    return opaque(token)


def set_watches_frames(
    relative_zxid: int, data: Iterable[str], missing: Iterable[str], children: Iterable[str]
) -> list[bytes]:
    """Encode SetWatches, in as many frames as needed. Changes after `relative_zxid` trigger the watches immediately."""
    frames: list[bytes] = []
    lists: tuple[list[str], list[str], list[str]] = ([], [], [])
    size_bytes = 0

    def cut() -> None:
        body = _LONG.pack(relative_zxid) + b"".join(map(texts, lists))
        frames.append(request_frame(SET_WATCHES_XID, OpCode.SET_WATCHES, body))
        for each in lists:
            each.clear()

    for paths, chosen in zip((data, missing, children), lists, strict=True):
        for path in paths:
            if size_bytes > SET_WATCHES_BYTES_MAX:
                cut()
                size_bytes = 0
            chosen.append(path)
            size_bytes += len(path) + _INT.size
    if size_bytes:
        cut()
    return frames


def path_body(path: str) -> bytes:
    return text(path)


def watched_path_body(path: str, *, is_watched: bool) -> bytes:
    """Encode the body of exists, getData and getChildren."""
    return text(path) + (b"\1" if is_watched else b"\0")


def operation_body(operation: Operation, path: str, acl: Sequence[Acl]) -> tuple[OpCode, bytes]:
    """`path` is the operation's on the server; `acl` is for a node to create."""
    match operation:
        case Create(_, data, is_ephemeral, is_sequential):
            flags = (EPHEMERAL_FLAG if is_ephemeral else 0) | (SEQUENTIAL_FLAG if is_sequential else 0)
            return OpCode.CREATE, text(path) + opaque(data) + acl_rows(acl) + int32(flags)
        case SetData(_, data, version):
            return OpCode.SET_DATA, text(path) + opaque(data) + int32(version)
        case Delete(_, version):
            return OpCode.DELETE, text(path) + int32(version)
        case Check(_, version):
            return OpCode.CHECK, text(path) + int32(version)
        case SetAcl(_, own, version):
            return OpCode.SET_ACL, text(path) + acl_rows(own) + int32(version)


def acl_rows(acl: Sequence[Acl]) -> bytes:
    rows = [int32(each.permissions) + text(each.scheme) + text(each.identity) for each in acl]
    return b"".join([int32(len(rows)), *rows])


_OPEN_ROWS: Final = acl_rows(OPEN_ACL)


def multi_body(operations: Iterable[tuple[OpCode, bytes]]) -> bytes:
    parts: list[bytes] = []
    for code, body in operations:
        parts += [MULTI_HEADER.pack(code, False, -1), body]
    parts.append(MULTI_HEADER.pack(OpCode.ERROR, True, -1))
    return b"".join(parts)


# --- reading ---


class Reader:
    """Reads one frame from its start. Every method raises DecodeError where the frame ends too early."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._position = 0

    def _unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            values = layout.unpack_from(self._data, self._position)
        except struct.error as error:
            raise DecodeError(f"the frame ends early: {error}") from error
        self._position += layout.size
        return values

    def int32(self) -> int:
        position = self._position
        try:
            value: int = _INT.unpack_from(self._data, position)[0]
        except struct.error as error:
            raise DecodeError(f"the frame ends early: {error}") from error
        self._position = position + 4
        return value

    def int64(self) -> int:
        return self._unpack(_LONG)[0]

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def boolean(self) -> bool:
        return bool(self._unpack(_BOOL)[0])

    def opaque(self) -> bytes:
        """Read bytes; null is empty."""
        length = self.int32()
        if length <= 0:
            if length < -1:
                raise DecodeError(f"a length of {length} is outside the frame")
            return b""
        begin = self._position
        self._position = end = begin + length
        raw = bytes(self._data[begin:end])
        if len(raw) < length:
            raise DecodeError(f"a length of {length} is outside the frame")
        return raw

    def text(self) -> str:
        return decode_text(self.opaque())

    def texts(self) -> list[str]:
        count = self.int32()
        if count * _INT.size > len(self._data) - self._position:
            raise DecodeError(f"{count} strings do not fit into the frame")
        return [self.text() for _ in range(count)]

    def stat(self) -> Stat:
        return Stat(*self._unpack(STAT))

    def acls(self) -> list[Acl]:
        end = self._position + len(_OPEN_ROWS)
        if self._data[self._position : end] == _OPEN_ROWS:  # that of nearly every node
            self._position = end
            return [*OPEN_ACL]
        count = self.int32()
        if count * ACL_BYTES_MIN > len(self._data) - self._position:
            raise DecodeError(f"{count} entries of an access list do not fit into the frame")
        return [Acl(self.int32(), self.text(), self.text()) for _ in range(count)]

    def reply_header(self) -> tuple[int, int, int]:
        """(xid, zxid, error)."""
        xid, zxid, error = self._unpack(REPLY_HEADER)
        return xid, zxid, error

    def multi_header(self) -> tuple[int, bool]:
        """(operation, whether this is the end)."""
        code, is_done, _ = self._unpack(MULTI_HEADER)
        return code, bool(is_done)


@dataclass(frozen=True, slots=True)
class ConnectReply:
    """Session 0 means that the session asked for is over."""

    timeout_ms: int
    session_id: int
    password: bytes


def read_connect_reply(frame: Buffer) -> ConnectReply:
    reader = Reader(frame)
    reader.int32()  # protocol version
    return ConnectReply(reader.int32(), reader.int64(), reader.opaque())


def read_watch_event(reader: Reader) -> tuple[WatchKind | None, str]:
    """Read the kind of a watch event, None for others, and the node's path."""
    kind = reader.int32()
    reader.int32()  # the state of the connection, not used
    return EVENT_KINDS.get(kind), reader.text()


def read_operation_result(code: int, reader: Reader) -> OperationResult:
    match code:
        case OpCode.CREATE:
            return reader.text()
        case OpCode.SET_DATA | OpCode.SET_ACL:
            return reader.stat()
        case OpCode.DELETE | OpCode.CHECK:
            return None
    raise DecodeError(f"a multi was answered with operation {code}")


def read_multi_results(reader: Reader, paths: Sequence[str]) -> list[OperationResult]:
    """Results in order. Raises the StoreError of the operation that failed: the others then carry errors, too, which
    only say that nothing was done."""
    results: list[OperationResult] = []
    failure: StoreError | None = None
    for index, path in enumerate(paths):
        code, is_done = reader.multi_header()
        if is_done:
            raise DecodeError(f"a multi of {len(paths)} operations was answered with {index} results")
        if code == OpCode.ERROR:
            error = reader.int32()
            if failure is None and error not in (ReplyCode.OK, ReplyCode.RUNTIME_INCONSISTENCY):
                failure = refusal(error, path, index)
            results.append(None)
        else:
            results.append(read_operation_result(code, reader))
    if not reader.multi_header()[1]:
        raise DecodeError(f"a multi of {len(paths)} operations was answered with more results")
    if failure is not None:
        raise failure
    return results


ReadBody = Callable[[Reader], object]
