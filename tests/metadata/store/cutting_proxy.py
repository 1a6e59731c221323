"""A proxy between a client and a ZooKeeper that understands just enough to cut connections at chosen moments.

`fate` is asked about every request of a client, after its handshake. A connection is cut only once the requests before
the one in question have been answered, so that what happened to it is known.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum

from metadata.store.zookeeper.wire import OpCode

WRITES = frozenset({OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE, OpCode.MULTI})


class Cut(Enum):
    BEFORE = "the request is lost"
    AFTER = "the request arrives, its answer is lost"


class CuttingProxy:
    def __init__(self, host: str, port: int) -> None:
        self.fate: Callable[[OpCode], Cut | None] = lambda code: None
        self.cuts = 0
        self.is_open = True
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._streams: set[_Stream] = set()
        self._is_idle = asyncio.Event()

    @property
    def connect(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def cut(self) -> None:
        for stream in list(self._streams):
            stream.cut()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._streams:
            self._is_idle.clear()
            await self._is_idle.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        stream = _Stream(self, writer, far_writer)
        self._streams.add(stream)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(stream.forward(reader))
                group.create_task(stream.back(far_reader))
        finally:
            stream.cut()
            self._streams.discard(stream)
            if not self._streams:
                self._is_idle.set()


class _Stream:
    def __init__(self, proxy: CuttingProxy, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._near = near
        self._far = far
        self._unanswered: set[int] = set()
        self._all_answered = asyncio.Event()
        self._lost_xid: int | None = None

    def cut(self) -> None:
        self._near.transport.abort()
        self._far.transport.abort()
        self._all_answered.set()

    async def forward(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            self._far.write(await _frame(reader))
            while True:
                frame = await _frame(reader)
                xid, number = struct.unpack_from(">ii", frame, 4)
                if number == OpCode.PING or xid < 0:
                    self._far.write(frame)
                    continue
                fate = self._proxy.fate(OpCode(number))
                if fate is not None:
                    self._proxy.cuts += 1
                    if self._unanswered:
                        self._all_answered.clear()
                        await self._all_answered.wait()
                if fate is Cut.BEFORE:
                    break
                self._unanswered.add(xid)
                if fate is Cut.AFTER:
                    self._lost_xid = xid
                self._far.write(frame)
                if fate is Cut.AFTER:
                    break
        if self._lost_xid is None:
            self.cut()

    async def back(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            self._near.write(await _frame(reader))
            while True:
                frame = await _frame(reader)
                (xid,) = struct.unpack_from(">i", frame, 4)
                if xid == self._lost_xid:
                    break
                self._near.write(frame)
                self._unanswered.discard(xid)
                if not self._unanswered:
                    self._all_answered.set()
        self.cut()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    prefix = await reader.readexactly(4)
    return prefix + await reader.readexactly(int.from_bytes(prefix, "big"))


@asynccontextmanager
async def proxied(connect: str) -> AsyncIterator[CuttingProxy]:
    host, _, port = connect.partition(":")
    proxy = CuttingProxy(host, int(port))
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
