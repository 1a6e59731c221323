"""Replies to clients: the bytes of a frame. Pure.

Rules: pure. A reply has the transaction that the server has applied last. An error has no body, but a transaction that failed
is answered with the error of each of its operations.
Source: ZooKeeper zookeeper.jute, MultiResponse, WatcherEvent, FinalRequestProcessor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from metadata.store.port import (
    AccessDeniedError,
    Acl,
    BadVersionError,
    ConnectionLossError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RefusedError,
    SessionExpiredError,
    Stat,
    StoreError,
    WatchEvent,
)
from metadata.store.server.authentication import Identity
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.wire import OpCode, ReplyCode

_EVENT = struct.Struct(">ii")
_CONNECTED_STATE: Final = 3
_EVENT_NUMBERS: Final = {kind: number for number, kind in wire.EVENT_KINDS.items()}
_CODES: Final[dict[type[StoreError], ReplyCode]] = {
    NoNodeError: ReplyCode.NO_NODE,
    NodeExistsError: ReplyCode.NODE_EXISTS,
    BadVersionError: ReplyCode.BAD_VERSION,
    NotEmptyError: ReplyCode.NOT_EMPTY,
    NoChildrenForEphemeralsError: ReplyCode.NO_CHILDREN_FOR_EPHEMERALS,
    AccessDeniedError: ReplyCode.NO_AUTH,
    RefusedError: ReplyCode.BAD_ARGUMENTS,
    SessionExpiredError: ReplyCode.SESSION_EXPIRED,
    ConnectionLossError: ReplyCode.CONNECTION_LOSS,
}
MULTI_END: Final = wire.MULTI_HEADER.pack(OpCode.ERROR, True, -1)


def code_of(error: StoreError) -> ReplyCode:
    return _CODES[type(error)]


def reply_frame(xid: int, zxid: int, code: int, body: bytes = b"") -> bytes:
    return wire.framed(wire.REPLY_HEADER.pack(xid, zxid, code) + body)


def event_frame(event: WatchEvent) -> bytes:
    """A watch event, which belongs to no transaction."""
    body = _EVENT.pack(_EVENT_NUMBERS[event.kind], _CONNECTED_STATE) + wire.text(event.path)
    return reply_frame(wire.NOTIFICATION_XID, -1, ReplyCode.OK, body)


def connect_reply(timeout_ms: int, session_id: int, password: bytes, *, knows_read_only: bool) -> bytes:
    """The answer to the handshake; session 0 refuses it. Clients from before read-only servers get a byte less."""
    return wire.framed(
        struct.pack(">iiq", 0, timeout_ms, session_id) + wire.opaque(password) + (b"\0" if knows_read_only else b"")
    )


def stat_body(stat: Stat) -> bytes:
    return wire.STAT.pack(
        stat.czxid,
        stat.mzxid,
        stat.ctime_ms,
        stat.mtime_ms,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.pzxid,
    )


def new_stat_body(zxid: int, time_ms: int, owner: int, data_length: int) -> bytes:
    """Of a node that transaction `zxid` has just made."""
    return wire.STAT.pack(zxid, zxid, time_ms, time_ms, 0, 0, 0, owner, data_length, 0, zxid)


def acl_body(acl: Sequence[Acl], stat: Stat) -> bytes:
    return wire.acl_rows(acl) + stat_body(stat)


def identities_body(identities: Sequence[Identity]) -> bytes:
    rows = [wire.text(scheme) + wire.text(name) for scheme, name in identities]
    return b"".join([wire.int32(len(rows)), *rows])


def multi_part(code: OpCode, body: bytes) -> bytes:
    return wire.MULTI_HEADER.pack(code, False, 0) + body


def multi_error(code: int) -> bytes:
    return wire.MULTI_HEADER.pack(OpCode.ERROR, False, code) + wire.int32(code)


def multi_body(parts: Iterable[bytes]) -> bytes:
    return b"".join([*parts, MULTI_END])


def failed_multi_body(count: int, failed_index: int, code: int) -> bytes:
    """Of those before the operation that failed nothing is left; those behind it were not tried."""
    errors = [ReplyCode.OK] * failed_index + [code] + [ReplyCode.RUNTIME_INCONSISTENCY] * (count - failed_index - 1)
    return multi_body(map(multi_error, errors))
