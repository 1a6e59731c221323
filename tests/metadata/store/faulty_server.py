"""The store server over any `Network`, on a file in memory, with faults on demand: several ports on one tree.

`decide` is asked about every request behind a greeting, when those before it on its connection are answered, and may cut the
connection. Sessions end by `expire` or by their clients, and not with time.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from metadata.store.committed_tree import CommittedTree
from metadata.store.node_tree import NodeTree, StoredSession
from metadata.store.server.connection import ServedConnection
from metadata.store.server.requests import read_multi, read_write
from metadata.store.server.service import Service, ServiceOptions
from metadata.store.server.sessions import SessionLimits
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.wire import OpCode, Reader
from protocol.frame import FrameReader
from runtime.clock import Clock
from runtime.network.transport import Connection, Listener, Network
from runtime.tasks import TaskScope
from tests.metadata.store.inline_queue import InlineQueue
from tests.simulation.store_server.file import SimStoreFile, StoreDisk

LONGEST_MS = 2**31 - 1


class Fate(Enum):
    """Of one request."""

    ANSWERED = "answered"
    REQUEST_LOST = "connection cut before it was carried out"
    REPLY_LOST = "carried out, then the connection was cut"
    APPLIED_LATE = "connection cut; carried out when somebody syncs"
    UNANSWERED = "the connection stays, and no answer comes"
    GARBAGE = "answered with what is no answer"


class FaultyServer:
    """Life: `listen`, for each port, then `close`."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self.links: list[FaultyLink] = []
        self.greetings: list[int] = []
        self.decide: Callable[[OpCode, str], Fate] = lambda code, path: Fate.ANSWERED
        self.greets = True
        self.late: list[tuple[int, bytes]] = []
        self._network = network
        self._clock = clock
        self._listeners: list[Listener] = []
        self._tasks = TaskScope("faulty server")
        self._service: Service | None = None
        self._limits = SessionLimits(timeout_min_ms=0, timeout_max_ms=LONGEST_MS, connections_max=0)

    @property
    def service(self) -> Service:
        assert self._service is not None, "it listens nowhere"
        return self._service

    @property
    def tree(self) -> NodeTree:
        return self.service.tree.tree

    @property
    def sessions(self) -> dict[int, StoredSession]:
        return dict(self.service.tree.sessions)

    def set_timeout(self, timeout_ms: int) -> None:
        """Give sessions this timeout, whatever they ask for."""
        self._limits = replace(self._limits, timeout_min_ms=timeout_ms, timeout_max_ms=timeout_ms)
        if self._service is not None:
            self._service.sessions.limits = self._limits

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """host:port of one more server of the ensemble."""
        if self._service is None:
            queue = InlineQueue()
            file = SimStoreFile(StoreDisk())
            tree = await CommittedTree.open(lambda: file, queue, self._clock, self._tasks)  # type: ignore[arg-type]
            self._service = Service(tree, self._clock, random.Random(1), ServiceOptions(self._limits))
        listener = await self._network.listen(host, port, lambda: FaultyLink(self))
        self._listeners.append(listener)
        return f"{host}:{listener.address.port}"

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        self.cut()
        await self.service.tree.close()
        await self._tasks.close()

    def cut(self) -> None:
        """Every connection breaks."""
        for link in list(self.links):
            link.cut()

    def expire(self, session_id: int) -> None:
        """The session's time is over; its client learns it at its next handshake."""
        self.service.tree.close_session(session_id, lambda _: None)
        for link in list(self.links):
            if link.session_id == session_id:
                link.cut()

    def apply_late(self) -> None:
        late, self.late = self.late, []
        for session_id, frame in late:
            reader = Reader(frame)
            _, code = reader.int32(), OpCode(reader.int32())
            writes = read_multi(reader, tuple) if code is OpCode.MULTI else [read_write(code, reader, tuple)]
            operations = [write.operation for write in writes]
            self.service.tree.write(operations, session_id=session_id, on_done=lambda _: None)


class FaultyLink:
    """One client's connection: between the network and the server's own. It passes on one request after the other."""

    takes_ranges = False

    def __init__(self, server: FaultyServer) -> None:
        self._server = server
        self._served = ServedConnection(server.service)
        self._connection: Connection | None = None
        self._frames = FrameReader(wire.REQUEST_BYTES_MAX)
        self._waiting: deque[bytes] = deque()
        self._due_xid: int | None = None
        self._is_greeted = self._loses_reply = False
        self.session_id = 0

    def cut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
            self._gone(None)

    def _gone(self, error: Exception | None) -> None:
        self._waiting.clear()
        if self in self._server.links:
            self._server.links.remove(self)
            self._served.disconnected(error)

    # --- the network's side ---

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self.peer, self.local = connection.peer, connection.local
        self._server.links.append(self)
        self._served.connected(self)

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        self._waiting.extend(bytes(frame) for frame in self._frames.received(count))
        self._go_on()

    def writing_paused(self) -> None:
        self._served.writing_paused()

    def writing_resumed(self) -> None:
        self._served.writing_resumed()

    def disconnected(self, error: Exception | None) -> None:
        self._connection = None
        self._gone(error)

    # --- the server's side ---

    def write(self, pieces: Sequence[bytes]) -> None:
        for frame in pieces:
            if self._connection is None:
                return
            if not self._is_greeted:
                self._is_greeted = True
                self.session_id = wire.read_connect_reply(frame[4:]).session_id
                self._server.greetings.append(self.session_id)
                self._due_xid = None
            elif struct.unpack_from(">i", frame, 4)[0] == self._due_xid:
                self._due_xid = None
                if self._loses_reply:
                    self.cut()
                    return
            self._connection.write([frame])
        self._go_on()

    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes()

    def pause_reading(self) -> None:
        """What was read waits here."""

    def resume_reading(self) -> None:
        """It was never paused."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        self.cut()

    # --- between them ---

    def _go_on(self) -> None:
        while self._waiting and self._due_xid is None and self._connection is not None:
            self._pass(self._waiting.popleft())

    def _pass(self, frame: bytes) -> None:
        if not self._is_greeted:
            if self._server.greets:
                self._due_xid = 0  # the greeting, which has none
                self._give(frame)
            return
        reader = Reader(frame)
        xid, code = reader.int32(), OpCode(reader.int32())
        fate = Fate.ANSWERED if code is OpCode.AUTH else self._server.decide(code, _first_path(code, reader))
        match fate:
            case Fate.APPLIED_LATE:
                self._server.late.append((self.session_id, frame))
                self.cut()
            case Fate.REQUEST_LOST:
                self.cut()
            case Fate.GARBAGE:
                assert self._connection is not None
                self._connection.write([wire.framed(b"\0\0")])
            case Fate.ANSWERED | Fate.REPLY_LOST:
                if code is OpCode.SYNC:
                    self._server.apply_late()
                self._due_xid, self._loses_reply = xid, fate is Fate.REPLY_LOST
                self._give(frame)

    def _give(self, frame: bytes) -> None:
        data, position = wire.framed(frame), 0
        while position < len(data):
            place = self._served.receive_buffer(0)
            part = data[position : position + len(place)]
            place[: len(part)] = part
            position += len(part)
            self._served.received(len(part))


def _first_path(code: OpCode, reader: Reader) -> str:
    """Of the nodes that a request names."""
    match code:
        case OpCode.PING | OpCode.CLOSE_SESSION:
            return ""
        case OpCode.MULTI:
            return "" if reader.multi_header()[1] else reader.text()
        case OpCode.SET_WATCHES:
            reader.int64()
            return [*reader.texts(), *reader.texts(), *reader.texts()][0]
    return reader.text()
