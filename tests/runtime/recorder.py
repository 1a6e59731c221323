"""A handler of one stream that keeps what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.network.transport import Connection


class Recorder:
    """A handler that keeps what it hears."""

    def __init__(self, *, echo: bool = False, buffer_bytes: int = 1000) -> None:
        self.connection: Connection | None = None
        self.data = bytearray()
        self.events: list[str] = []
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        self._echo = echo
        self._buffer = memoryview(bytearray(buffer_bytes))

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        self._note("connected")

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        self.data += self._buffer[:count]
        if self._echo:
            assert self.connection is not None
            self.connection.write([bytes(self._buffer[:count])])
        self.changed.set()

    def writing_paused(self) -> None:
        self._note("paused")

    def writing_resumed(self) -> None:
        self._note("resumed")

    def disconnected(self, error: Exception | None) -> None:
        self.error = error
        self._note("disconnected")

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.changed.clear()
                await self.changed.wait()
