"""The store server without a network: connections whose other end a test plays, over a tree in memory."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from metadata.store.committed_tree import CommittedTree
from metadata.store.server.connection import ServedConnection
from metadata.store.server.service import Service, ServiceOptions
from metadata.store.server.sessions import SessionLimits
from metadata.store.zookeeper import wire
from metadata.store.zookeeper.wire import OpCode
from runtime.network.transport import Address
from runtime.tasks import TaskScope
from tests.doubles.clock import ManualClock
from tests.metadata.store.inline_queue import InlineQueue
from tests.simulation.store_server.file import SimStoreFile, StoreDisk

ROOM_BYTES = 64 * 1024
"""As much may be unsent before writing is paused."""


class Wire:
    """The other end of a connection: it reads nothing until `read`."""

    takes_ranges = False

    def __init__(self, handler: ServedConnection, host: str = "10.0.0.1", room_bytes: int = ROOM_BYTES) -> None:
        self.peer, self.local = Address(host, 1), Address("10.0.0.9", 2181)
        self.sent = b""
        self.unread_bytes = 0
        self.is_open = True
        self.is_aborted = False
        self.is_reading = True
        self._is_slow = False
        self._room_bytes = room_bytes
        self._handler = handler
        handler.connected(self)

    def write(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self.sent += piece
            self.unread_bytes += len(piece)
        if self.unread_bytes > self._room_bytes and not self._is_slow:
            self._is_slow = True
            self._handler.writing_paused()

    def unsent_bytes(self) -> int:
        return self.unread_bytes

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_open = False

    def abort(self) -> None:
        self.is_open, self.is_aborted = False, True

    # --- the client ---

    def cut(self) -> None:
        self._handler.disconnected(None)

    def give(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            place = self._handler.receive_buffer(0)
            part = data[position : position + len(place)]
            place[: len(part)] = part
            position += len(part)
            self._handler.received(len(part))

    def read(self) -> None:
        """Take what was sent."""
        self.unread_bytes = 0
        if self._is_slow:
            self._is_slow = False
            self._handler.writing_resumed()

    def replies(self) -> list[tuple[int, int, int, bytes]]:
        """(xid, zxid, error, body) of each frame behind the greeting."""
        frames, position = [], 0
        while position < len(self.sent):
            (length,) = struct.unpack_from(">i", self.sent, position)
            frames.append(self.sent[position + 4 : position + 4 + length])
            position += 4 + length
        return [(*struct.unpack_from(">iqi", frame), frame[16:]) for frame in frames[1:]]


def greeting(session_id: int = 0, password: bytes = bytes(16), timeout_ms: int = 10_000) -> bytes:
    return wire.connect_frame(last_zxid=0, timeout_ms=timeout_ms, session_id=session_id, password=password)


def ask(xid: int, code: OpCode, body: bytes = b"") -> bytes:
    return wire.request_frame(xid, code, body)


class World:
    def __init__(self, service: Service, disk: StoreDisk, clock: ManualClock) -> None:
        self.service = service
        self.disk = disk
        self.clock = clock

    def connect(self, **options: object) -> Wire:
        return Wire(ServedConnection(self.service), **options)  # type: ignore[arg-type]

    async def client(self, **options: object) -> Wire:
        link = self.connect(**options)
        link.give(greeting())
        await self.settled()
        return link

    async def settled(self) -> None:
        decided = asyncio.get_running_loop().create_future()
        self.service.tree.after_writes(lambda: decided.set_result(None))
        await decided

    def tick(self, ms: int) -> None:
        tick_ms = self.service.options.limits.tick_ms
        for _ in range(ms // tick_ms):
            self.clock.now_ms += tick_ms
            self.service.sessions.tick()


@asynccontextmanager
async def world(**limits: int) -> AsyncIterator[World]:
    disk, clock = StoreDisk(), ManualClock()
    file = SimStoreFile(disk)
    async with TaskScope("test") as tasks:
        tree = await CommittedTree.open(lambda: file, InlineQueue(), clock, tasks)  # type: ignore[arg-type]
        service = Service(tree, clock, random.Random(1), ServiceOptions(SessionLimits(**limits)))
        yield World(service, disk, clock)
        await tree.close()
