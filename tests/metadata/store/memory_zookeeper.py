"""A ZooKeeper in memory that speaks the wire protocol over any `Network`: one tree, several ports, faults on demand.

What it answers was compared with the real one: the conformance suite runs over both (`zookeeper/test_oracle.py`).
`decide` is asked about every request and may cut its connection. Sessions end by `expire` or by their clients.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from enum import Enum

from metadata.store.node_tree import NodeTree, Staged
from metadata.store.port import (
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
    SetData,
    Stat,
    StoreError,
    Transaction,
    WatchEvent,
    WatchKind,
)
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.wire import OpCode, Reader, ReplyCode
from protocol.frame import FrameReader
from runtime.clock import Clock
from runtime.network.transport import Connection, Listener, Network

EVENT_TYPES = {kind: number for number, kind in wire.EVENT_KINDS.items()}
CODES = {
    NoNodeError: ReplyCode.NO_NODE,
    BadVersionError: ReplyCode.BAD_VERSION,
    NoChildrenForEphemeralsError: ReplyCode.NO_CHILDREN_FOR_EPHEMERALS,
    NodeExistsError: ReplyCode.NODE_EXISTS,
    NotEmptyError: ReplyCode.NOT_EMPTY,
}


class Fate(Enum):
    """Of one request."""

    ANSWERED = "answered"
    REQUEST_LOST = "connection cut before it was carried out"
    REPLY_LOST = "carried out, then the connection was cut"
    APPLIED_LATE = "connection cut; carried out when somebody syncs"
    UNANSWERED = "the connection stays, and no answer comes"
    GARBAGE = "answered with what is no answer"


class MemoryZooKeeper:
    def __init__(self, network: Network, clock: Clock, *, timeout_ms: int | None = None) -> None:
        """`timeout_ms` is what sessions get, whatever they ask for."""
        self.tree = NodeTree()
        self.sessions: dict[int, bytes] = {}
        self.links: list[ServerLink] = []
        self.authentications: list[tuple[str, bytes]] = []
        self.greetings: list[int] = []
        self.decide: Callable[[OpCode, str], Fate] = lambda code, path: Fate.ANSWERED
        self.greets = True
        self.timeout_ms = timeout_ms
        self.largest_set_watches_bytes = 0
        self.set_watches_count = 0
        self.late: list[tuple[int, list[Operation]]] = []
        self._network = network
        self._clock = clock
        self._listeners: list[Listener] = []
        self._next_session_id = 0x7F00000000000001

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """host:port of one more server of the ensemble."""
        listener = await self._network.listen(host, port, lambda: ServerLink(self))
        self._listeners.append(listener)
        return f"{host}:{listener.address.port}"

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        self.cut()

    def cut(self) -> None:
        """Every connection breaks."""
        for link in list(self.links):
            link.cut()

    def expire(self, session_id: int) -> None:
        """The session's time is over; its client learns it at its next handshake."""
        self.end_session(session_id)
        for link in list(self.links):
            if link.session_id == session_id:
                link.cut()

    def greet(self, session_id: int, password: bytes) -> tuple[int, bytes]:
        if session_id == 0:
            session_id, password = self._next_session_id, self._next_session_id.to_bytes(16, "big")
            self._next_session_id += 1
            self.sessions[session_id] = password
        elif self.sessions.get(session_id) != password:
            session_id, password = 0, bytes(16)
        self.greetings.append(session_id)
        return session_id, password

    def end_session(self, session_id: int) -> None:
        self.sessions.pop(session_id, None)
        owned = self.tree.ephemerals_of(session_id)
        if owned:
            self.transact(session_id, [Delete(path) for path in owned])

    def transact(self, session_id: int, operations: Transaction) -> list[OperationResult]:
        staged = self.tree.stage(operations, session_id=session_id, now_ms=self._clock.wall_ms())
        self.tree.apply(staged)
        self._tell(staged)
        return staged.results

    def apply_late(self) -> None:
        late, self.late = self.late, []
        for session_id, operations in late:
            with suppress(StoreError):  # refused, and nobody is there to hear it
                self.transact(session_id, operations)

    def _tell(self, staged: Staged) -> None:
        for event in staged.events:
            for link in list(self.links):
                link.tell(event)


class ServerLink:
    """One client's connection."""

    def __init__(self, server: MemoryZooKeeper) -> None:
        self.session_id = 0
        self._server = server
        self._frames = FrameReader(wire.REQUEST_BYTES_MAX)
        self._connection: Connection | None = None
        self._has_greeted = False
        self._data: set[str] = set()
        self._children: set[str] = set()

    # --- the connection ---

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._server.links.append(self)

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        for frame in self._frames.received(count):
            if self._connection is not None:
                self._on_frame(frame)

    def writing_paused(self) -> None:
        """Clients of tests read."""

    def writing_resumed(self) -> None:
        """Clients of tests read."""

    def disconnected(self, error: Exception | None) -> None:
        self._forget()

    def cut(self) -> None:
        connection = self._connection
        self._forget()
        if connection is not None:
            connection.abort()

    def _forget(self) -> None:
        self._connection = None
        if self in self._server.links:
            self._server.links.remove(self)

    def _send(self, payload: bytes) -> None:
        if self._connection is not None:
            self._connection.write([wire.framed(payload)])

    def _reply(self, xid: int, code: int, body: bytes = b"") -> None:
        self._send(struct.pack(">iqi", xid, self._server.tree.zxid, code) + body)

    def tell(self, event: WatchEvent) -> None:
        watched = self._children if event.kind is WatchKind.CHILDREN else self._data
        is_watched = event.path in watched
        watched.discard(event.path)
        if event.kind is WatchKind.DELETED and event.path in self._children:
            self._children.discard(event.path)
            is_watched = True
        if is_watched:
            self._notify(EVENT_TYPES[event.kind], event.path)

    def _notify(self, kind: int, path: str) -> None:
        self._send(struct.pack(">iqi", wire.NOTIFICATION_XID, -1, 0) + struct.pack(">ii", kind, 3) + wire.text(path))

    # --- requests ---

    def _on_frame(self, frame: bytes | bytearray) -> None:
        if not self._has_greeted:
            self._greet(Reader(frame))
            return
        reader = Reader(frame)
        xid, code = reader.int32(), reader.int32()
        if code == OpCode.PING:
            if self._server.decide(OpCode.PING, "") is Fate.ANSWERED:
                self._reply(wire.PING_XID, 0)
            return
        if code == OpCode.AUTH:
            reader.int32()
            self._server.authentications.append((reader.text(), reader.opaque()))
            self._reply(wire.AUTH_XID, 0)
            return
        if code == OpCode.SET_WATCHES:
            self._server.set_watches_count += 1
            self._server.largest_set_watches_bytes = max(self._server.largest_set_watches_bytes, len(frame))
            self._set_watches(reader)
            return
        self._on_request(xid, OpCode(code), reader)

    def _greet(self, reader: Reader) -> None:
        reader.int32()
        reader.int64()
        timeout_ms, session_id, password = reader.int32(), reader.int64(), reader.opaque()
        if not self._server.greets:
            return
        self._has_greeted = True
        self.session_id, password = self._server.greet(session_id, password)
        timeout_ms = (self._server.timeout_ms or timeout_ms) if self.session_id else 0
        self._send(struct.pack(">iiq", 0, timeout_ms, self.session_id) + wire.opaque(password) + b"\0")
        if not self.session_id and self._connection is not None:
            self._connection.close()
            self._forget()

    def _set_watches(self, reader: Reader) -> None:
        since, tree = reader.int64(), self._server.tree
        data, missing, children = reader.texts(), reader.texts(), reader.texts()
        if self._server.decide(OpCode.SET_WATCHES, (data + missing + children)[0]) is not Fate.ANSWERED:
            self.cut()
            return
        for path in data:
            node = tree.nodes.get(path)
            if node is None or node.mzxid > since:
                self._notify(EVENT_TYPES[WatchKind.DELETED if node is None else WatchKind.CHANGED], path)
            else:
                self._data.add(path)
        for path in missing:
            if path in tree.nodes:
                self._notify(EVENT_TYPES[WatchKind.CREATED], path)
            else:
                self._data.add(path)
        for path in children:
            if path not in tree.nodes:
                self._notify(EVENT_TYPES[WatchKind.DELETED], path)
            elif tree.node(path).pzxid > since:
                self._notify(EVENT_TYPES[WatchKind.CHILDREN], path)
            else:
                self._children.add(path)
        self._reply(wire.SET_WATCHES_XID, 0)

    def _on_request(self, xid: int, code: OpCode, reader: Reader) -> None:
        server = self._server
        operations = _operations(code, reader)
        path = operations[0].path if operations else "" if code in _WRITES else _peek(reader)
        fate = server.decide(code, path)
        if fate is Fate.APPLIED_LATE:
            server.late.append((self.session_id, operations))
        if fate in (Fate.REQUEST_LOST, Fate.APPLIED_LATE):
            self.cut()
        if fate is Fate.GARBAGE:
            self._send(b"\0\0")
        if fate not in (Fate.ANSWERED, Fate.REPLY_LOST):
            return
        held, self._connection = self._connection, None if fate is Fate.REPLY_LOST else self._connection
        if code in _WRITES:
            self._write(xid, code, operations)
        else:
            self._read(xid, code, path, reader)
        if fate is Fate.REPLY_LOST:
            self._connection = held
            self.cut()

    def _write(self, xid: int, code: OpCode, operations: list[Operation]) -> None:
        if code is OpCode.CLOSE_SESSION:
            self._server.end_session(self.session_id)
            self._reply(xid, 0)
            if self._connection is not None:
                self._connection.close()
            return
        try:
            results = self._server.transact(self.session_id, operations)
        except StoreError as error:
            number = CODES[type(error)]
            if code is OpCode.MULTI:
                self._reply(xid, 0, _failed_multi(len(operations), error.operation_index or 0, number))
            else:
                self._reply(xid, number)
            return
        nodes = self._server.tree.nodes
        if code is not OpCode.MULTI:
            self._reply(xid, 0, _result(operations[0], results[0], nodes))
            return
        parts = []
        for operation, result in zip(operations, results, strict=True):
            parts.append(struct.pack(">i?i", _code(operation), False, 0) + _result(operation, result, nodes))
        self._reply(xid, 0, b"".join(parts) + struct.pack(">i?i", -1, True, -1))

    def _read(self, xid: int, code: OpCode, path: str, reader: Reader) -> None:
        server = self._server
        if code is OpCode.SYNC:
            server.apply_late()
            self._reply(xid, 0, wire.text(path))
            return
        is_watched = reader._unpack(struct.Struct(">?"))[0]
        node = server.tree.nodes.get(path)
        if is_watched and (node is not None or code is OpCode.EXISTS):
            (self._children if code is OpCode.GET_CHILDREN else self._data).add(path)
        if node is None:
            self._reply(xid, ReplyCode.NO_NODE)
        elif code is OpCode.GET_CHILDREN:
            names = server.tree.children(path)[::-1]
            self._reply(xid, 0, struct.pack(">i", len(names)) + b"".join(map(wire.text, names)))
        else:
            data = wire.opaque(node.data) if code is OpCode.GET_DATA else b""
            self._reply(xid, 0, data + _stat(node.stat))


_WRITES = {OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE, OpCode.CHECK, OpCode.MULTI, OpCode.CLOSE_SESSION}


def _operations(code: OpCode, reader: Reader) -> list[Operation]:
    """The operations of a write."""
    if code is OpCode.MULTI:
        operations = []
        while True:
            each, is_done = reader.multi_header()
            if is_done:
                return operations
            operations += _operations(OpCode(each), reader)
    if code is OpCode.CREATE:
        path, data = reader.text(), reader.opaque()
        acl = tuple(Acl(reader.int32(), reader.text(), reader.text()) for _ in range(reader.int32()))
        flags = reader.int32()
        return [Create(path, data, bool(flags & 1), bool(flags & 2), acl)]
    if code is OpCode.SET_DATA:
        return [SetData(reader.text(), reader.opaque(), reader.int32())]
    if code is OpCode.DELETE:
        return [Delete(reader.text(), reader.int32())]
    if code is OpCode.CHECK:
        return [Check(reader.text(), reader.int32())]
    return []


def _peek(reader: Reader) -> str:
    return reader.text()


def _code(operation: Operation) -> OpCode:
    return wire.operation_body(operation, operation.path, ())[0]


def _stat(stat: Stat) -> bytes:
    return struct.pack(">qqqqiiiqiiq", *astuple(stat))


def _result(operation: Operation, result: OperationResult, nodes: object) -> bytes:
    if isinstance(operation, Create):
        assert isinstance(result, str)
        return wire.text(result)
    if isinstance(result, Stat):
        return _stat(result)
    return b""


def _failed_multi(count: int, failed: int, code: int) -> bytes:
    errors = [
        0 if index < failed else code if index == failed else ReplyCode.RUNTIME_INCONSISTENCY for index in range(count)
    ]
    rows = [struct.pack(">i?ii", OpCode.ERROR, False, error, error) for error in errors]
    return b"".join(rows) + struct.pack(">i?i", -1, True, -1)
